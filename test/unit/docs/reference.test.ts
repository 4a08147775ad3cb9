import ts from 'typescript';
import { expect, it } from 'vitest';
import { logLines, logPageProblems } from '../../../scripts/docs/reference/log.js';
import { optionsWithoutTable } from '../../../scripts/docs/reference/options.js';
import { original, type Source } from '../../../scripts/docs/reference/source.js';

// npm run check:docs compares the pages with lib/, and so tests the tables. These are its checks that a page is complete.

const FILES: Readonly<Record<string, string>> = {
  '/lib/index.ts': `
    /** Options of a try. */
    export interface TryOptions extends NamedOptions {
      /** The time, milliseconds; default 5,000. */
      wait?: number;
      /** The key. */
      key: string;
    }
    export interface NamedOptions {
      /** A name. Default: none. */
      name?: string;
    }
    declare class Logger { log(line: string): void; warn(line: string): void }
    export function follow(logger: Logger, election: string, first: boolean) {
      logger.log(\`leads \${election}\`);
      logger.warn(first ? 'one' : 'two');
    }`,
  '/lib.d.ts': `interface Array<T> {} interface Boolean {} interface Function {}
    interface IArguments {} interface Number {} interface Object {} interface RegExp {} interface String {}`,
};

function madeUp(): Source {
  const names = Object.keys(FILES);
  const program = ts.createProgram(
    names,
    { noLib: true },
    {
      getSourceFile: (name, version) => ts.createSourceFile(name, FILES[name]!, version, true),
      fileExists: (name) => name in FILES,
      readFile: (name) => FILES[name],
      writeFile: () => {},
      getDefaultLibFileName: () => '/lib.d.ts',
      getCurrentDirectory: () => '/',
      getCanonicalFileName: (name) => name,
      useCaseSensitiveFileNames: () => true,
      getNewLine: () => '\n',
    },
  );
  const checker = program.getTypeChecker();
  const files = program.getSourceFiles().filter(({ fileName }) => fileName.startsWith('/lib/'));
  const index = checker.getSymbolAtLocation(program.getSourceFile('/lib/index.ts')!)!;
  const exported = checker.getExportsOfModule(index);
  const exports = new Map(exported.map((symbol) => [symbol.name, original(checker, symbol)]));
  return { checker, files, exports };
}

const source = madeUp();
it('an option that no table has is reported', () => {
  const page = '<!-- generated: options TryOptions except NamedOptions -->';
  expect(optionsWithoutTable(source, page)).toEqual(['name of TryOptions', 'name of NamedOptions']);
});

it('the page of log lines must have each line at its level, and no other line', () => {
  const page = (...rows: string[]) => rows.map((row) => `| ${row} | x | y |`).join('\n');
  const lines = logLines(source);
  const all = ['log | `leads {name}`', 'warn | `one`', 'warn | `two`'];
  expect(logPageProblems(lines, page(...all))).toEqual([]);
  expect(logPageProblems(lines, page('warn | `leads {name}`', ...all.slice(1)))).toEqual([
    expect.stringMatching(/^the page has no row for "leads …" \(log\) of .*lib\/index\.ts:\d+$/),
    'the page has "leads {name}" (warn), which nothing writes',
  ]);
});
