import ts from 'typescript';
import {
  code,
  literalsOf,
  paragraphsOf,
  sentencesOf,
  type Source,
  table,
  visitNodes,
} from './source.js';

/** An error class as its page shows it. */
interface ErrorClass {
  readonly name: string;
  /** The values of `code`; empty if the class has none. */
  readonly codes: readonly string[];
  /** The HTTP status of a handler that fails with the error. */
  readonly status: string;
  readonly paragraphs: readonly string[];
  /** The properties besides those of every CoordinationError. */
  readonly properties: readonly {
    readonly name: string;
    readonly type: string;
    readonly text: string;
  }[];
}

/** Paragraphs of a doc comment that have a line of their own on the page. */
const LABELS = ['Cause', 'Remedy'];

/** Returns the exported classes of errors, in alphabetical order. */
export function errorClasses(source: Source): ErrorClass[] {
  const { checker, exports } = source;
  const statuses = statusesOf(source);
  const symbols = [...exports].filter(
    ([, symbol]) => symbol.flags & ts.SymbolFlags.Class && isError(checker, symbol),
  );
  const single = new Set(
    symbols
      .map(([, symbol]) => codesOf(checker, symbol))
      .flatMap((codes) => (codes.length === 1 ? codes : [])),
  );
  const classes = symbols.map(([name, symbol]) => {
    const type = checker.getDeclaredTypeOfSymbol(symbol);
    // The type of an inherited `code` has the codes of subclasses, which other rows have.
    const own = codesOf(checker, symbol);
    const codes = own.filter((value) => own.length === 1 || !single.has(value));
    const properties = type
      .getProperties()
      .filter((property) => isShown(property, name))
      .map((property) => ({
        name: property.name,
        type: checker.typeToString(checker.getTypeOfSymbol(property)),
        text: paragraphsOf(source, property).join(' '),
      }));
    const status = codes.map((value) => statuses.get(value) ?? '500');
    const paragraphs = paragraphsOf(source, symbol);
    return { name, codes, status: [...new Set(status)].join(', '), paragraphs, properties };
  });
  return classes.sort((one, other) => one.name.localeCompare(other.name));
}

export function errorTable(source: Source): string {
  return table(
    ['Error', '`code`', 'HTTP', 'When'],
    errorClasses(source).map(({ name, codes, status, paragraphs }) => [
      `[${name}](#${name.toLowerCase()})`,
      codes.length > 2 ? 'see below' : codes.map(code).join(', '),
      status,
      sentencesOf(paragraphs[0] ?? '')[0] ?? '',
    ]),
  );
}

export function errorSections(source: Source): string {
  return errorClasses(source).map(sectionOf).join('\n\n');
}

function sectionOf({ name, codes, paragraphs, properties }: ErrorClass): string {
  const labelled = (text: string) => LABELS.some((label) => text.startsWith(`${label}: `));
  const facts = [
    ...paragraphs
      .filter(labelled)
      .map((text) =>
        text.replace(
          /^(\w+:) (.)/,
          (_, label: string, first: string) => `**${label}** ${first.toUpperCase()}`,
        ),
      ),
    ...(codes.length > 2 ? [`**Codes:** ${codes.map(code).join(', ')}.`] : []),
    ...properties.map(
      (property) =>
        `${code(property.name)}: ${code(property.type)}${property.text && `. ${property.text}`}`,
    ),
  ];
  return [
    `## ${name}`,
    ...paragraphs.filter((text) => !labelled(text)),
    facts.map((fact) => `- ${fact}`).join('\n'),
  ]
    .filter(Boolean)
    .join('\n\n');
}

function isError(checker: ts.TypeChecker, symbol: ts.Symbol): boolean {
  const bases = (type: ts.Type): ts.Type[] => [type, ...(type.getBaseTypes() ?? []).flatMap(bases)];
  return bases(checker.getDeclaredTypeOfSymbol(symbol)).some(
    (type) => type.symbol?.name === 'Error',
  );
}

/** Whether a property is described with its class: a public one of the library that not all errors have. */
function isShown(
  { declarations, name, parent }: ts.Symbol & { parent?: ts.Symbol },
  owner: string,
) {
  const [declaration] = declarations ?? [];
  if (!declaration || declaration.getSourceFile().fileName.includes('/node_modules/')) return false;
  if (parent?.name === 'CoordinationError') return owner === 'CoordinationError';
  return name !== 'code' && name !== 'name';
}

/** Returns the values that `code` of a class may have. */
function codesOf(checker: ts.TypeChecker, symbol: ts.Symbol): string[] {
  const property = checker.getDeclaredTypeOfSymbol(symbol).getProperty('code');
  return property ? literalsOf(checker.getTypeOfSymbol(property)) : [];
}

/** Returns the statuses of the answers in zk-exception.filter.ts, by the code of the error. */
function statusesOf({ files }: Source): Map<string, string> {
  const file = files.find(({ fileName }) => fileName.endsWith('/zk-exception.filter.ts'))!;
  const objects = new Map<string, ts.ObjectLiteralExpression>();
  visitNodes(file, (node) => {
    if (
      (ts.isVariableDeclaration(node) || ts.isPropertyAssignment(node)) &&
      node.initializer &&
      ts.isObjectLiteralExpression(node.initializer)
    ) {
      objects.set(node.name.getText(), node.initializer);
    }
  });
  const valueOf = (object: ts.ObjectLiteralExpression, name: string) =>
    object.properties.filter(ts.isPropertyAssignment).find((one) => one.name.getText() === name);
  return new Map(
    objects.get('ANSWERS')!.properties.map((property) => {
      const { name, initializer } = property as ts.PropertyAssignment;
      const answer = objects.get(ts.isIdentifier(initializer) ? initializer.text : name.getText())!;
      return [name.getText(), valueOf(answer, 'status')!.initializer.getText()];
    }),
  );
}
