import ts from 'typescript';
import { expect, it } from 'vitest';
import { errorTable } from '../../../scripts/docs/reference/errors.js';
import { logLines, logPageProblems } from '../../../scripts/docs/reference/log.js';
import { channelTable, metricTable } from '../../../scripts/docs/reference/metrics.js';
import { optionsWithoutTable, optionTable } from '../../../scripts/docs/reference/options.js';
import { original, type Source } from '../../../scripts/docs/reference/source.js';

// npm run check:docs compares the pages with lib/.

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
    /** A try was refused. It is not repeated. */
    export class BusyError extends Error { readonly code = 'BUSY'; }
    declare class Logger { log(line: string): void; warn(line: string): void }
    export function follow(logger: Logger, election: string, first: boolean) {
      logger.log(\`leads \${election}\`);
      logger.warn(first ? 'one' : 'two');
    }
    /** A message: the follower of an election. */
    export interface FollowMessage { event: 'begin' | 'end' }
    declare function typedChannel<T>(name: string): T;
    typedChannel<FollowMessage>('nestjs-zookeeper:follow');`,
  '/lib/zk-exception.filter.ts': `const ANSWERS = { BUSY: { status: 503 } };`,
  '/lib/opentelemetry/metrics.ts': `
    declare const meter: { createCounter(name: string, options: object): any };
    const KEY = 'zookeeper.key';
    export function metrics() {
      const late = meter.createCounter('zookeeper.late', { description: 'Late calls.', unit: '1' });
      late.add(1, { [KEY]: 'gold' });
    }`,
  '/lib.d.ts': `interface Array<T> {} interface Boolean {} interface Function {}
    interface IArguments {} interface Number {} interface Object {} interface RegExp {} interface String {}
    interface Error {} declare const Error: new (message?: string) => Error;`,
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
const rowsOf = (table: string) => table.split('\n').slice(2);

it('the table of options has their types, units and defaults, without those of another type', () => {
  expect(rowsOf(optionTable(source, 'TryOptions', ['NamedOptions']))).toEqual([
    '| `wait` | `number`, milliseconds | 5,000 | The time. |',
    '| `key` | `string` | required | The key. |',
  ]);
});

it('an option that no table has is reported', () => {
  const page = '<!-- generated: options TryOptions except NamedOptions -->';
  expect(optionsWithoutTable(source, page)).toEqual(['name of TryOptions', 'name of NamedOptions']);
});

it('the table of errors has their codes and HTTP statuses', () => {
  expect(rowsOf(errorTable(source))).toEqual([
    '| [BusyError](#busyerror) | `BUSY` | 503 | A try was refused. |',
  ]);
});

it('the tables of telemetry have the metrics with their attributes, and the channels', () => {
  expect(rowsOf(metricTable(source))).toEqual([
    '| `zookeeper.late` | counter | `1` | `zookeeper.key` | Late calls. |',
  ]);
  expect(rowsOf(channelTable(source))).toEqual([
    '| `nestjs-zookeeper:follow` | `FollowMessage` | `begin`, `end` | The follower of an election. |',
  ]);
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
