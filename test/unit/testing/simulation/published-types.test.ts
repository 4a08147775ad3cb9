import { readFileSync } from 'node:fs';
import ts from 'typescript';
import { expect, it } from 'vitest';

/** Returns the public members of a class in the declaration file that the build writes. */
function publishedMembers(file: string, name: string): string[] {
  const { config } = ts.readConfigFile('tsconfig.build.json', ts.sys.readFile);
  const { stripInternal } = config.compilerOptions as { stripInternal: boolean };
  const source = readFileSync(`lib/testing/simulation/${file}`, 'utf8');
  const options = { target: ts.ScriptTarget.ES2023, stripInternal };
  const { outputText } = ts.transpileDeclaration(source, { compilerOptions: options });
  const declarations = ts.createSourceFile('types.d.ts', outputText, ts.ScriptTarget.ES2023);
  const found = declarations.statements.find(
    (statement) => ts.isClassDeclaration(statement) && statement.name?.text === name,
  ) as ts.ClassDeclaration;
  const isPrivate = (member: ts.ClassElement) =>
    (ts.getCombinedModifierFlags(member) & ts.ModifierFlags.Private) !== 0;
  const members = found.members.filter((member) => !isPrivate(member));
  const names = members.map((member) => member.name?.getText(declarations) ?? 'constructor');
  return [...new Set(names)].filter((each) => each !== '#private').sort();
}

it.each([
  ['link.ts', 'Link', 'cut latency letOthersOvertake refuseConnections refuses reset'],
  [
    'process.ts',
    'SimulatedProcess',
    'block client clockRate crash crashed link name override pause paused resume run stepClock timers',
  ],
  [
    'ensemble.ts',
    'SimulatedServer',
    'address crash fallBehind isServing isolate isolated pause rejoin restart resume sessionIds state',
  ],
  [
    'world.ts',
    'World',
    'at children deleteZnode expireSession exploring loseReply note now process processes random servers sessionIds sessionsOf setZnodeData sleep trace watchCount znodes',
  ],
])('%s: the published type %s has no internal members', (file, name, members) => {
  expect(publishedMembers(file, name).join(' ')).toBe(members);
});
