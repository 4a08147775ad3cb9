import ts from 'typescript';
import {
  code,
  literalsOf,
  original,
  paragraphsOf,
  type Source,
  table,
  visitNodes,
} from './source.js';

/** The kinds of the methods of a meter. */
const KINDS: ReadonlyMap<string, string> = new Map([
  ['createCounter', 'counter'],
  ['createHistogram', 'histogram'],
  ['createObservableUpDownCounter', 'up-down counter'],
]);

/** Returns a table of the metrics that lib/opentelemetry creates. */
export function metricTable(source: Source): string {
  const rows: string[][] = [];
  visitCalls(source, (call) => {
    const { expression: callee } = call;
    const kind = ts.isPropertyAccessExpression(callee) ? KINDS.get(callee.name.text) : undefined;
    if (!kind) return;
    const [name, options] = call.arguments;
    const { description, unit } = Object.fromEntries(
      (options as ts.ObjectLiteralExpression).properties
        .filter(ts.isPropertyAssignment)
        .map(({ name: key, initializer }) => [key.getText(), initializer]),
    ) as Record<string, ts.StringLiteral>;
    rows.push([
      code((name as ts.StringLiteral).text),
      kind,
      code(unit!.text),
      attributesOf(source, call).map(code).join(', '),
      description!.text,
    ]);
  });
  return table(['Metric', 'Kind', 'Unit', 'Attributes', 'Meaning'], rows.sort());
}

/** Returns the names of the spans and attributes in lib/opentelemetry: its strings that begin as one. */
export function telemetryNames({ files }: Source): Set<string> {
  const names = new Set<string>();
  for (const file of files.filter(({ fileName }) => fileName.includes('/lib/opentelemetry/'))) {
    visitNodes(file, (node) => {
      if (ts.isStringLiteral(node) && /^(zookeeper|error)\.[a-z]/.test(node.text))
        names.add(node.text);
    });
  }
  return names;
}

/** Returns a table of the channels of `node:diagnostics_channel` on which lib/ publishes. */
export function channelTable(source: Source): string {
  const { checker } = source;
  const rows = new Map<string, string[]>();
  visitCalls(source, (call) => {
    const [type] = call.typeArguments ?? [];
    if (call.expression.getText() !== 'typedChannel' || !type || !ts.isTypeReferenceNode(type))
      return;
    const name = checker.getTypeAtLocation(call.arguments[0]!);
    if (!name.isStringLiteral()) throw new Error(`the name of ${call.getText()} is not known`);
    const message = original(checker, checker.getSymbolAtLocation(type.typeName)!);
    const members = checker.getTypeFromTypeNode(type);
    const events = checker.getPropertyOfType(members, 'event');
    rows.set(name.value, [
      code(name.value),
      fieldsOf(members).map(code).join(', '),
      events ? literalsOf(checker.getTypeOfSymbol(events)).map(code).join(', ') : '',
      paragraphsOf(source, message)
        .join(' ')
        .replace(/^A message(?: on the channel `[^`]+`)?[:.] (.)/, (_, first: string) =>
          first.toUpperCase(),
        ),
    ]);
  });
  return table(['Channel', 'Message', 'Events', 'Published'], [...rows.values()].sort());
}

/** Returns the names of all properties of a type, or of all members of a union. */
function fieldsOf(type: ts.Type): string[] {
  const types = type.isUnion() ? type.types : [type];
  return [...new Set(types.flatMap((one) => one.getProperties().map(({ name }) => name)))];
}

/** Returns the names of the attributes that are recorded in the statement list of a metric's creation. */
function attributesOf({ checker }: Source, creation: ts.CallExpression): string[] {
  const variable = (creation.parent as ts.VariableDeclaration).name.getText();
  let scope: ts.Node = creation;
  while (!ts.isBlock(scope)) scope = scope.parent;
  const names: string[] = [];
  visitNodes(scope, (node) => {
    if (
      ts.isCallExpression(node) &&
      /^(\w+)\.(add|record|observe)$/.test(node.expression.getText())
    ) {
      const [receiver, method] = node.expression.getText().split('.');
      const observable = creation.expression.getText().includes('Observable');
      const [, attributes] = node.arguments;
      if ((method === 'observe' ? observable : receiver === variable) && attributes) {
        for (const { name } of (attributes as ts.ObjectLiteralExpression).properties) {
          const { expression } = name as ts.ComputedPropertyName;
          names.push((checker.getTypeAtLocation(expression) as ts.StringLiteralType).value);
        }
      }
    }
  });
  return names;
}

function visitCalls({ files }: Source, visitor: (call: ts.CallExpression) => void): void {
  for (const file of files) {
    visitNodes(file, (node) => {
      if (ts.isCallExpression(node)) visitor(node);
    });
  }
}
