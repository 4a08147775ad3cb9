import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it, onTestFinished, vi } from 'vitest';
import { failureText, toFailure } from '../../../scripts/simulation/failure.js';
import { Figures } from '../../../scripts/simulation/figures.js';
import { checkLibrary } from '../../../scripts/simulation/library.js';
import { parseCommand } from '../../../scripts/simulation/options.js';
import { runSeeds, type Runner } from '../../../scripts/simulation/run-seeds.js';
import {
  failedReport,
  reportSeed,
  type SeedReport,
} from '../../../scripts/simulation/seed-report.js';
import { SeedWorker } from '../../../scripts/simulation/seed-worker.js';
import { shrink } from '../../../scripts/simulation/shrink.js';
import type { Fault, Library, Report } from '../../../scripts/simulation/types.js';

const directory = mkdtempSync(join(tmpdir(), 'simulate-command-'));
afterAll(() => rmSync(directory, { recursive: true }));

const PROPERTY = 'no two leases overlap';
const workload = 'locks';
const server = 'zookeeper';

/** Returns the report of a seed, with a violation if `fails` returns true for the faults. */
function report(
  seed: number,
  faults: readonly number[],
  fails: (faults: readonly number[]) => boolean,
): SeedReport {
  return {
    seed,
    digest: 'd',
    duration: 10_000,
    events: 100,
    grants: 50,
    faults: faults.map(toFault),
    violations: fails(faults) ? [{ property: PROPERTY, message: `with ${faults}`, at: 7 }] : [],
  };
}

function toFault(index: number): Fault {
  return { index, kind: 'cut', target: 'p1', from: index * 100, until: index * 100 + 50 };
}

describe('the options of npm run simulate', () => {
  const parse = (text: string) => parseCommand(text === '' ? [] : text.split(' '));

  it('select the seeds, the faults and the mode', () => {
    const defaults = { kind: 'seeds', seeds: 100, minutes: undefined, lib: 'dist', json: false };
    expect(parse('')).toMatchObject({ ...defaults, server: 'zookeeper' });
    // The first seed is random.
    expect(parse('')).not.toEqual(parse(''));
    expect(parse('--seeds 7 --from 12 --workers 3 --json')).toMatchObject({
      ...{ seeds: 7, from: 12, workers: 3, json: true },
    });
    expect(parse('--minutes 0.5')).toMatchObject({ minutes: 0.5, seeds: Infinity });
    const single = { kind: 'seed', seed: 42, faults: undefined, trace: undefined };
    expect(parse('--seed 42')).toMatchObject(single);
    expect(parse('--seed 42 --faults 1,4')).toMatchObject({ faults: [1, 4] });
    expect(parse('--seed 42 --faults=')).toMatchObject({ faults: [] });
    expect(parse('--mutants')).toMatchObject({ kind: 'mutants', names: [], from: 1, minutes: 2 });
    expect(parse('--mutants one two')).toMatchObject({ names: ['one', 'two'] });
    expect(parse('--help')).toEqual({ kind: 'help' });
  });

  it.each([
    ['--seeds 1.5', '--seeds must be a whole number from 1 to 100000000, but is 1.5'],
    ['--seeds', '--seeds needs a value'],
    ['--minutes 0', '--minutes must be a number from 0.001 to 10080, but is 0'],
    ['--from 4294967295 --seeds 2', '--from 4294967295 with --seeds 2 exceeds'],
    ['--seed 1 --faults 1,x', '--faults must be a list of whole numbers such as 1,4, but is 1,x'],
    ['--seed 1 --trace none/x.html', '--trace none/x.html: its directory does not exist'],
    ['--seed 1 --seeds 2', '--seeds 2 cannot be combined with --seed'],
    [
      '--mutants --server clickhouse-keeper',
      '--server clickhouse-keeper cannot be combined with --mutants',
    ],
    ['--faults 1', '--faults 1 needs --seed'],
    ['--seeds 1 --seeds 2', '--seeds 2 is given a second time'],
    ['--workload jobs', '--workload must be one of locks, partitions, queue, guarded-writes,'],
    ['5', 'unexpected argument 5'],
  ])('are rejected: %s', (text, message) => {
    expect(() => parse(text)).toThrow(message);
    expect(() => parse(text)).not.toThrow('\n');
  });

  it('must name a directory with a build of the library', () => {
    checkLibrary('dist');
    expect(() => checkLibrary(directory)).toThrow(
      `--lib ${directory} is not a build of the library: it has no index.js`,
    );
  });
});

describe('shrinking', () => {
  const limits = { runs: 200, milliseconds: 60_000 };
  const all = [0, 1, 2, 3, 4, 5, 6, 7];

  async function shrinkWith(fails: (faults: readonly number[]) => boolean, options = limits) {
    const run = vi.fn(async (faults: readonly number[]) => report(1, faults, fails));
    const shrunk = await shrink(report(1, all, fails), run, options);
    return { ...shrunk, indexes: shrunk.faults.map(({ index }) => index), runs: run.mock.calls };
  }

  it('keeps the faults that the violation needs', async () => {
    const { indexes, violation } = await shrinkWith((faults) =>
      [1, 4].every((n) => faults.includes(n)),
    );
    expect(indexes).toEqual([1, 4]);
    expect(violation.message).toBe('with 1,4');
  });

  it('needs one run to find that the violation needs no fault', async () => {
    const { indexes, runs } = await shrinkWith(() => true);
    expect([indexes, runs.length]).toEqual([[], 1]);
  });

  it('accepts a shorter list only after a run with it has failed', async () => {
    const { indexes, runs } = await shrinkWith(({ length }) => length === 8);
    expect(indexes).toEqual(all);
    expect(runs.length).toBeGreaterThan(8);
  });

  it('rejects a list that violates another property', async () => {
    const run = async (faults: readonly number[]) => failedReport(1, 'another', `with ${faults}`);
    const shrunk = await shrink(
      report(1, all, () => true),
      run,
      limits,
    );
    expect(shrunk).toMatchObject({ faults: { length: 8 }, violation: { property: PROPERTY } });
  });

  it('ends at the limit of runs, at the time limit and at an abort', async () => {
    const needsFour = (faults: readonly number[]) => faults.includes(4);
    const few = await shrinkWith(needsFour, { ...limits, runs: 6 });
    expect(few.runs).toHaveLength(6);
    expect(few.indexes).toEqual([0, 1, 2, 3, 4]);
    const late = await shrinkWith(needsFour, { ...limits, milliseconds: -1 });
    expect(late).toMatchObject({ runs: { length: 0 }, indexes: all });
    const aborted = { ...limits, signal: AbortSignal.abort() };
    expect(await shrinkWith(needsFour, aborted)).toMatchObject({ runs: { length: 0 } });
  });
});

describe('runSeeds', () => {
  class FakeRunner implements Runner {
    readonly ran: number[] = [];
    closed = 0;

    constructor(private readonly fails: (seed: number) => boolean) {}

    async run({ seed, faults = [0, 1] }: { seed: number; faults?: readonly number[] }) {
      if (!this.ran.includes(seed)) this.ran.push(seed);
      await new Promise(setImmediate);
      return report(seed, faults, () => this.fails(seed));
    }

    async close() {
      this.closed++;
    }
  }

  async function run(fails: (seed: number) => boolean, onSeed = (_stop: AbortController) => {}) {
    const stop = new AbortController();
    const runners = [new FakeRunner(fails), new FakeRunner(fails)];
    const figures = new Figures(2);
    const failures: ReturnType<typeof toFailure>[] = [];
    await runSeeds({
      ...{ workload, server, runners, figures, lib: 'dist', signal: stop.signal },
      seeds: [10, 11, 12, 13, 14, 15, 16, 17].values(),
      onSeed: () => onSeed(stop),
      onFailure: (failure) => void failures.push(failure),
    });
    expect(runners.every(({ closed }) => closed > 0)).toBe(true);
    return { ran: runners.flatMap(({ ran }) => ran), figures, failures };
  }

  it('runs each seed once, shrinks the first three failures and reports all', async () => {
    const { ran, failures, figures } = await run((seed) => seed > 12);
    expect(ran.toSorted()).toEqual([10, 11, 12, 13, 14, 15, 16, 17]);
    expect(figures).toMatchObject({ seeds: 8, grants: 400, violations: 5, duration: 80_000 });
    expect(failures).toHaveLength(5);
    expect(failures.filter(({ command }) => command.endsWith(' --faults='))).toHaveLength(3);
    expect(failures.filter(({ faults }) => faults.length === 2)).toHaveLength(2);
  });

  it('ends at an abort and keeps the figures of the seeds that have run', async () => {
    const { figures } = await run(
      () => false,
      (stop) => stop.abort(),
    );
    expect(figures.seeds).toBe(1);
  });
});

describe('a worker process', () => {
  /** @param code the code that handles a message with the variable `seed` */
  function workerOf(code: string, timeout?: number, ready = 'process.send({})'): SeedWorker {
    const file = join(directory, `worker-${Math.random()}.mjs`);
    writeFileSync(file, `process.on('message', ({ seed }) => { ${code} });\n${ready};\n`);
    const worker = new SeedWorker('some/lib', timeout, file);
    onTestFinished(() => worker.close());
    return worker;
  }

  it('is reported as a violation if it dies, and is replaced for the next seed', async () => {
    const argument = 'argument: process.argv[2]';
    const worker = workerOf(
      `if (seed === 1) process.exit(7); process.send({ value: { seed, ${argument} } })`,
    );
    expect(await worker.run({ workload, seed: 1 })).toMatchObject({
      seed: 1,
      violations: [
        { property: 'the run of a seed ends', message: 'its process ended with exit code 7' },
      ],
    });
    expect(await worker.run({ workload, seed: 2 })).toEqual({ seed: 2, argument: 'some/lib' });
  });

  it('is reported as a violation if it does not reply, even in an endless loop', async () => {
    const slowStart = 'setTimeout(() => process.send({}), 200)';
    const worker = workerOf(
      'if (seed === 1) for (;;); process.send({ value: { seed } })',
      100,
      slowStart,
    );
    expect(await worker.run({ workload, seed: 1 })).toMatchObject({
      seed: 1,
      violations: [{ message: 'its process did not reply within 0.1 s' }],
    });
  });
});

describe('the report of a seed', () => {
  const library = {} as Library;
  const full: Report = { ...report(5, [0, 1], () => false), acquires: [], processes: ['p1'] };

  it('contains an error of the simulator as a violation', async () => {
    const failing = async () => {
      throw Object.assign(new Error('seed 5 failed', { cause: new Error('no I/O') }), {
        digest: 'abc',
      });
    };
    const { digest, violations } = await reportSeed(failing, library, { workload, seed: 5 });
    expect(digest).toBe('abc');
    expect(violations[0]!.message).toMatch(/^seed 5 failed\nError: no I\/O\n +at /);
  });

  it('contains the selected faults only', async () => {
    const run = async () => full;
    const some = await reportSeed(run, library, { workload, seed: 5, faults: [1] });
    expect(some.faults.map(({ index }) => index)).toEqual([1]);
    await expect(reportSeed(run, library, { workload, seed: 5, faults: [1, 9] })).rejects.toThrow(
      '--faults: seed 5 has no fault 9',
    );
  });
});

describe('a failure', () => {
  const failed = report(42, [0, 1, 2], () => true);

  it('is printed with the command that replays it', () => {
    const { violations } = failed;
    const shrunk = { faults: failed.faults.slice(1), violation: violations[0]! };
    expect(toFailure(failed, { workload, server: 'clickhouse-keeper', lib: 'dist' }).command).toBe(
      'npm run simulate -- --seed 42 --server clickhouse-keeper',
    );
    expect(toFailure(failed, { workload, server, lib: "it's/dist", shrunk }).command).toBe(
      `npm run simulate -- --seed 42 --faults=1,2 --lib 'it'\\''s/dist'`,
    );
    expect(failureText(toFailure(failed, { workload, server, lib: 'dist', shrunk }))).toBe(
      [
        `VIOLATION with seed 42 after 7.000 ms: ${PROPERTY}`,
        '  with 0,1,2',
        '  faults:',
        '    1: cut, p1, 100.000 ms to 150.000 ms',
        '    2: cut, p1, 200.000 ms to 250.000 ms',
        '  replay: npm run simulate -- --seed 42 --faults=1,2',
      ].join('\n'),
    );
  });
});
