import ts from 'typescript';

/** A place in a source file where one operator changes the code. */
export interface Mutation {
  /** The path of the file, relative to the root of the project. */
  readonly file: string;
  /** Counted from 1. */
  readonly line: number;
  readonly operator: Operator;
  /** The first line of the changed code, without its indentation. */
  readonly code: string;
  /** The code that is replaced, and what replaces it. */
  readonly before: string;
  readonly after: string;
  /** The whole file with the change. */
  readonly mutated: string;
}

/** The operators are those of StrykerJS for conditions, operators and statements, and one that removes an `await`. */
export type Operator =
  | 'negated condition'
  | 'dropped operand'
  | 'dropped statement'
  | 'other comparison'
  | 'other arithmetic'
  | 'other boolean'
  | 'removed await';

type Change = readonly [operator: Operator, node: ts.Node, after: string];

const COMPARISONS: Partial<Record<ts.SyntaxKind, string>> = {
  [ts.SyntaxKind.LessThanToken]: '<=',
  [ts.SyntaxKind.LessThanEqualsToken]: '<',
  [ts.SyntaxKind.GreaterThanToken]: '>=',
  [ts.SyntaxKind.GreaterThanEqualsToken]: '>',
  [ts.SyntaxKind.EqualsEqualsEqualsToken]: '!==',
  [ts.SyntaxKind.ExclamationEqualsEqualsToken]: '===',
};
const ARITHMETIC: Partial<Record<ts.SyntaxKind, string>> = {
  [ts.SyntaxKind.PlusToken]: '-',
  [ts.SyntaxKind.MinusToken]: '+',
  [ts.SyntaxKind.AsteriskToken]: '/',
  [ts.SyntaxKind.SlashToken]: '*',
};
const LOGICAL: readonly ts.SyntaxKind[] = [
  ts.SyntaxKind.AmpersandAmpersandToken,
  ts.SyntaxKind.BarBarToken,
  ts.SyntaxKind.QuestionQuestionToken,
];

/** Returns all mutations of a source file, in the order of the code. */
export function mutationsOf(file: string, source: string): Mutation[] {
  const tree = ts.createSourceFile(file, source, ts.ScriptTarget.Latest, true);
  const lines = source.split('\n');
  const mutations: Mutation[] = [];
  const visit = (node: ts.Node) => {
    for (const [operator, changed, after] of changesOf(node)) {
      const [start, end] = [changed.getStart(tree), changed.getEnd()];
      const { line } = tree.getLineAndCharacterOfPosition(start);
      mutations.push({
        file,
        line: line + 1,
        code: lines[line]!.trim(),
        operator,
        before: source.slice(start, end),
        after,
        mutated: source.slice(0, start) + after + source.slice(end),
      });
    }
    ts.forEachChild(node, visit);
  };
  visit(tree);
  return mutations;
}

function changesOf(node: ts.Node): Change[] {
  if (ts.isIfStatement(node) || ts.isWhileStatement(node)) return [negated(node.expression)];
  if (ts.isConditionalExpression(node)) return [negated(node.condition)];
  if (ts.isForStatement(node)) return node.condition ? [negated(node.condition)] : [];
  if (ts.isBinaryExpression(node)) return changesOfBinary(node);
  if (ts.isAwaitExpression(node)) return [['removed await', node, node.expression.getText()]];
  if (isDroppable(node)) return [['dropped statement', node, ';']];
  if (node.kind === ts.SyntaxKind.TrueKeyword && !ts.isLiteralTypeNode(node.parent)) {
    return [['other boolean', node, 'false']];
  }
  if (node.kind === ts.SyntaxKind.FalseKeyword && !ts.isLiteralTypeNode(node.parent)) {
    return [['other boolean', node, 'true']];
  }
  return [];
}

function negated(condition: ts.Expression): Change {
  return ['negated condition', condition, `!(${condition.getText()})`];
}

function changesOfBinary(node: ts.BinaryExpression): Change[] {
  const { left, right, operatorToken } = node;
  if (LOGICAL.includes(operatorToken.kind)) {
    return [left, right].map((rest) => ['dropped operand', node, `(${rest.getText()})`]);
  }
  const comparison = COMPARISONS[operatorToken.kind];
  if (comparison) return [['other comparison', operatorToken, comparison]];
  const arithmetic = ARITHMETIC[operatorToken.kind];
  const isOfTexts = [left, right].some((side) => ts.isStringLiteralLike(side));
  return arithmetic && !isOfTexts ? [['other arithmetic', operatorToken, arithmetic]] : [];
}

/** A call of `super` is not dropped, because no object could be made without it. */
function isDroppable(node: ts.Node): boolean {
  if (ts.isReturnStatement(node)) return !node.expression;
  if (!ts.isExpressionStatement(node)) return false;
  const { expression } = node;
  return !(
    ts.isCallExpression(expression) && expression.expression.kind === ts.SyntaxKind.SuperKeyword
  );
}
