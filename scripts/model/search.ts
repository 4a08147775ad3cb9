import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { type Configuration, MODEL } from './configurations.js';

const run = promisify(execFile);

/** The result of a search through all states of a configuration. */
export interface SearchResult {
  readonly states: number;
  /** Steps of the longest run. */
  readonly depth: number;
  readonly seconds: number;
  readonly violation: Violation | undefined;
}

export interface Violation {
  readonly property: string;
  /** The steps of a run that ends in the violation. */
  readonly trace: readonly string[];
}

/** What Spin writes about a violated property, and what it means. The first that matches counts. */
const PROPERTIES: readonly (readonly [RegExp, string])[] = [
  [/topFrom/, 'a fencing token does not rise'],
  [/y<=1/, 'two holders believe in their leases'],
  [/expired/, 'a lock is granted without a session'],
  [/revoked/, 'a revoked lock is passed on'],
  [/inside/, 'a call chain enters a lock that it has lost'],
  [/size/, 'a znode is left'],
  [/st\[y\]/, 'a wait ends without a grant'],
  [/invalid end state|acceptance cycle/, 'a caller waits for ever'],
];

/** The most steps of a run. A longer one is an error. */
const MAX_DEPTH = 100_000;

export interface SearchOptions {
  /** The name of a planted bug. */
  readonly bug?: string;
  /** Whether to search on for the shortest run that ends in a violation. */
  readonly shortest?: boolean;
  readonly signal: AbortSignal;
}

/**
 * Searches all states of a configuration.
 *
 * @throws Error if the search cannot run, or ends early
 */
export async function search(
  { constants, quick }: Configuration,
  { bug, shortest = false, signal }: SearchOptions,
): Promise<SearchResult> {
  const started = performance.now();
  const defines = Object.entries(constants).map(([name, value]) => `-D${name}=${value}`);
  defines.push(`-DBUG=${bug?.toUpperCase().replaceAll('-', '_') ?? 0}`);
  const directory = mkdtempSync(join(tmpdir(), 'model-'));
  const options = { cwd: directory, signal, maxBuffer: 2 ** 28 };
  try {
    await run('spin', ['-a', ...defines, MODEL], options);
    // For a short search, the compiler would take longer to optimize than the search.
    const flags = ['-w', quick ? '-O0' : '-O2', '-DCOLLAPSE'];
    const endless = constants.ROUNDS === 0;
    // With weak fairness, a process that can always take a step takes one some time.
    flags.push(endless ? '-DNFAIR=6' : '-DSAFETY');
    if (shortest && !endless) flags.push('-DREACH');
    await run('gcc', [...flags, '-o', 'pan', 'pan.c'], options);
    const pan = [
      `-m${MAX_DEPTH}`,
      quick ? '-w20' : '-w24',
      ...(endless ? ['-a', '-f'] : shortest ? ['-i'] : []),
    ];
    const { stdout } = await run('./pan', pan, options);
    if (!/errors: \d/.test(stdout) || /search depth too small|out of memory|aborted/.test(stdout)) {
      throw new Error(stdout);
    }
    const found = /^pan:\d+: (.*)/m.exec(stdout)?.[1];
    let violation: Violation | undefined;
    if (found !== undefined) {
      const property = PROPERTIES.find(([pattern]) => pattern.test(found))?.[1];
      // An error in the model itself, such as an index that is out of range.
      if (property === undefined) throw new Error(found);
      const replay = ['-t', '-T', '-k', 'lock.pml.trail', ...defines, MODEL];
      // Its exit code is not 0 if the run ends in a failed assertion.
      const { stdout: steps } = await run('spin', replay, options).catch((error) => error);
      violation = { property, trace: stepsOf(String(steps)) };
    }
    const numberAfter = (pattern: RegExp) => Number(pattern.exec(stdout)![1]);
    return {
      states: numberAfter(/([\d.e+]+) states, stored/),
      depth: numberAfter(/depth reached (\d+)/),
      seconds: (performance.now() - started) / 1000,
      violation,
    };
  } finally {
    rmSync(directory, { recursive: true });
  }
}

/** Returns the lines that the steps of the model print, and where a run without end begins to repeat itself. */
function stepsOf(replay: string): string[] {
  return replay
    .split('\n')
    .filter((line) => /^ *(place|caller|process) \d|granted to|START OF CYCLE/.test(line))
    .map((line) => (line.includes('CYCLE') ? 'from here on, again and again:' : line));
}
