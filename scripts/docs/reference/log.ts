import { relative, join } from 'node:path';
import ts from 'typescript';
import { root } from '../../packed.mjs';
import { literalsOf, original, type Source, visitNodes } from './source.js';

/** A line that the library writes. In `text`, `…` stands for what differs from line to line. */
export interface LogLine {
  /** A level of Nest's logger, or `process warning` and its code. */
  readonly level: string;
  readonly text: string;
  /** The file and line of the call. */
  readonly place: string;
}

const UNKNOWN = '…';
const LEVELS = ['log', 'warn', 'error', 'debug', 'verbose', 'fatal'];

/** Log calls whose text is an argument of their function, and the function that builds the text. Keys: the file and the argument. */
const MADE_ELSEWHERE: Readonly<Record<string, readonly [file: string, functionName: string]>> = {
  'lib/decorators/coordination.explorer.ts warning': [
    'lib/decorators/coordination.explorer.ts',
    'replacementWarning',
  ],
  'lib/zk.connection.ts line': ['lib/services/overdue-monitor.ts', 'check'],
  'lib/client/zk-client.ts text': ['lib/client/zk-client.ts', '#refusal'],
  'lib/zk.log.ts refused.message': ['lib/client/zk-client.ts', '#refusal'],
  'lib/zk.log.ts message.reason.message': ['lib/kernel/term.ts', 'end'],
};

/**
 * Returns the lines of Nest's loggers and the process warnings in lib/.
 *
 * @throws Error if the text of a line is not known
 */
export function logLines(source: Source): LogLine[] {
  const lines: LogLine[] = [];
  for (const file of source.files) {
    visitNodes(file, (node) => {
      if (!ts.isCallExpression(node)) return;
      for (const level of levelsOf(source.checker, node)) {
        const { line } = file.getLineAndCharacterOfPosition(node.getStart());
        const place = `${fileName(file)}:${line + 1}`;
        for (const text of lineTexts(source, node)) lines.push({ level, text, place });
      }
    });
  }
  return lines;
}

/**
 * Compares the lines of lib/ with the tables of docs/reference/troubleshooting.md: each row has the level in its first cell and the
 * line in its second one, with `{name}` for what differs.
 */
export function logPageProblems(lines: readonly LogLine[], page: string): string[] {
  const rows = [...page.matchAll(/^\| (`?\w[^|]*?) *\| `(.+?)` *\| [^|]+ \| [^|]+ \|$/gm)].map(
    ([, level, text]) => ({ level: level!.replaceAll('`', ''), text: text! }),
  );
  const isOf = (row: { level: string; text: string }, { level, text }: LogLine) =>
    row.level === level && patternOf(row.text).test(text);
  return [
    ...lines
      .filter((line) => !rows.some((row) => isOf(row, line)))
      .map(({ level, text, place }) => `the page has no row for "${text}" (${level}) of ${place}`),
    ...rows
      .filter((row) => !lines.some((line) => isOf(row, line)))
      .map(({ level, text }) => `the page has "${text}" (${level}), which nothing writes`),
  ];
}

/** A row without fixed text matches only the messages of errors. */
function patternOf(row: string): RegExp {
  const parts = row.split(/\{[^}]*\}/).map((part) => part.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&'));
  return parts.every((part) => part === '') ? /^…$/ : new RegExp(`^${parts.join('.+')}$`);
}

/** Returns the levels at which a call writes; none if it writes no line. */
function levelsOf(
  checker: ts.TypeChecker,
  { expression: callee, arguments: args }: ts.CallExpression,
): string[] {
  if (callee.getText() === 'process.emitWarning') {
    const code = /code: '(\w+)'/.exec(args[1]?.getText() ?? '')?.[1];
    return [code ? `process warning ${code}` : 'process warning'];
  }
  if (!ts.isPropertyAccessExpression(callee) && !ts.isElementAccessExpression(callee)) return [];
  const method = ts.isPropertyAccessExpression(callee)
    ? `'${callee.name.text}'`
    : callee.argumentExpression.getText();
  const levels = LEVELS.filter((level) => method.includes(`'${level}'`));
  if (levels.length === 0) return [];
  const { name } = checker.getTypeAtLocation(callee.expression).symbol ?? {};
  return name === 'Logger' || name === 'LoggerService' ? levels : [];
}

function lineTexts(source: Source, call: ts.CallExpression): string[] {
  const [argument] = call.arguments as unknown as [ts.Expression];
  const texts = textsOf(source, argument);
  const isString =
    (source.checker.getTypeAtLocation(argument).flags & ts.TypeFlags.StringLike) !== 0;
  if (!isString || !texts.includes(UNKNOWN)) return texts;
  const name = `${fileName(call.getSourceFile())} ${argument.getText()}`;
  const [file, functionName] = MADE_ELSEWHERE[name] ?? [];
  if (!file)
    throw new Error(`the text of the log line ${name} is not known: add it to MADE_ELSEWHERE`);
  return textsMadeBy(source, file, functionName!);
}

/** Returns the texts that a function returns, also from its closures, and the messages of errors that it creates. */
function textsMadeBy(source: Source, file: string, functionName: string): string[] {
  const texts: string[] = [];
  const collect = (expression: ts.Expression | undefined) => {
    if (expression && ts.isTemplateExpression(expression))
      texts.push(...textsOf(source, expression));
  };
  const { files } = source;
  visitNodes(
    files.find((one) => fileName(one) === file)!,
    (node) => {
      if (!ts.isMethodDeclaration(node) || node.name.getText() !== functionName) return;
      visitNodes(node, (inner) => {
        if (ts.isReturnStatement(inner)) collect(inner.expression);
        if (ts.isArrowFunction(inner) && !ts.isBlock(inner.body)) collect(inner.body);
        if (ts.isNewExpression(inner))
          texts.push(...textsOf(source, inner).filter((text) => text !== UNKNOWN));
      });
    },
  );
  return texts;
}

/** Returns the values that a string may have. */
function textsOf(source: Source, node: ts.Expression): string[] {
  const { checker } = source;
  const of = (expression: ts.Expression) => textsOf(source, expression);
  if (ts.isStringLiteralLike(node)) return [node.text];
  if (ts.isTemplateExpression(node)) {
    const start = [node.head.text];
    const texts = node.templateSpans.reduce(
      (before, { expression, literal }) => joined(joined(before, of(expression)), [literal.text]),
      start,
    );
    return [...new Set(texts.map((text) => text.replace(/…+/g, UNKNOWN)))];
  }
  if (ts.isConditionalExpression(node)) {
    const texts = [...of(node.whenTrue), ...of(node.whenFalse)];
    // An optional part is shown.
    return [...new Set(texts.filter(Boolean))];
  }
  if (ts.isParenthesizedExpression(node) || ts.isAwaitExpression(node)) return of(node.expression);
  if (ts.isNewExpression(node)) return node.arguments?.[0] ? of(node.arguments[0]) : [UNKNOWN];
  if (ts.isCallExpression(node)) return resultOf(source, node);
  const literals = literalsOf(checker.getTypeAtLocation(node));
  if (literals.length > 0) return literals;
  if (ts.isIdentifier(node)) {
    const symbol = ts.isShorthandPropertyAssignment(node.parent)
      ? checker.getShorthandAssignmentValueSymbol(node.parent)
      : checker.getSymbolAtLocation(node);
    return symbol?.valueDeclaration ? valueOf(source, symbol.valueDeclaration) : [UNKNOWN];
  }
  if (ts.isPropertyAccessExpression(node))
    return propertyTexts(source, checker.getSymbolAtLocation(node.name));
  return [UNKNOWN];
}

function joined(before: readonly string[], after: readonly string[]): string[] {
  return before.flatMap((left) => after.map((right) => left + right));
}

function valueOf(source: Source, declaration: ts.Declaration): string[] {
  if (ts.isVariableDeclaration(declaration) && declaration.initializer) {
    return textsOf(source, declaration.initializer);
  }
  if (ts.isBindingElement(declaration)) {
    const { checker } = source;
    const type = checker.getTypeAtLocation(declaration.parent);
    return propertyTexts(
      source,
      type.getProperty((declaration.propertyName ?? declaration.name).getText()),
    );
  }
  return ts.isParameter(declaration) ? argumentTexts(source, declaration) : [UNKNOWN];
}

/** Returns the texts that calls in the same file pass for a parameter of a method. */
function argumentTexts(source: Source, parameter: ts.ParameterDeclaration): string[] {
  const { parent: method } = parameter;
  const texts: string[] = [];
  visitNodes(parameter.getSourceFile(), (node) => {
    if (!ts.isCallExpression(node) || !ts.isPropertyAccessExpression(node.expression)) return;
    const callee = source.checker.getSymbolAtLocation(node.expression.name)?.valueDeclaration;
    const argument = node.arguments[method.parameters.indexOf(parameter)];
    if (callee === method && argument) texts.push(...textsOf(source, argument));
  });
  return texts.length > 0 ? texts : [UNKNOWN];
}

/** Returns the result of a function of lib/ that is one expression, and of `JSON.stringify`. */
function resultOf(source: Source, { expression: callee }: ts.CallExpression): string[] {
  if (callee.getText() === 'JSON.stringify') return [`"${UNKNOWN}"`];
  const { checker } = source;
  const symbol = ts.isIdentifier(callee) ? checker.getSymbolAtLocation(callee) : undefined;
  let declaration: ts.Node | undefined = symbol && original(checker, symbol).valueDeclaration;
  if (declaration && ts.isVariableDeclaration(declaration)) declaration = declaration.initializer;
  if (!declaration || !ts.isArrowFunction(declaration) || ts.isBlock(declaration.body))
    return [UNKNOWN];
  return textsOf(source, declaration.body);
}

/** Returns the texts that object literals of lib/ give to a property of an interface of lib/. */
function propertyTexts(source: Source, property: ts.Symbol | undefined): string[] {
  const declaration = property?.declarations?.[0];
  const isOwn = declaration && source.files.includes(declaration.getSourceFile());
  if (!isOwn || !ts.isPropertySignature(declaration) || property.name !== 'message')
    return [UNKNOWN];
  const texts: string[] = [];
  for (const file of source.files) {
    visitNodes(file, (node) => {
      if (!ts.isShorthandPropertyAssignment(node) || node.name.text !== property.name) return;
      const type = source.checker.getContextualType(node.parent);
      const types = type?.isUnion() ? type.types : type ? [type] : [];
      const given = types.map((one) => one.getProperty(property.name)?.declarations?.[0]);
      if (given.includes(declaration)) texts.push(...textsOf(source, node.name));
    });
  }
  return texts.length > 0 ? texts : [UNKNOWN];
}

function fileName(file: ts.SourceFile): string {
  return relative(join(root), file.fileName).replaceAll('\\', '/');
}
