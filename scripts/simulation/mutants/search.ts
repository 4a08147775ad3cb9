import type { Runner } from '../run-seeds.js';
import type { SeedReport } from '../seed-report.js';
import type { RunOptions } from '../types.js';

/** A seed with which a mutated build violates a property. */
export interface Finding {
  readonly seed: number;
  readonly property: string;
  readonly message: string;
}

/** The result of a search, with its duration in seconds of real time and the number of seeds that were started. */
export interface Search {
  readonly finding: Finding | undefined;
  readonly seconds: number;
  readonly seeds: number;
}

export interface SearchOptions {
  /** The options of each run, except its seed. */
  readonly run: Pick<RunOptions, 'workload' | 'server'>;
  /** The number of processes that run seeds at the same time. */
  readonly workers: number;
  /** The first seed; the others follow it. */
  readonly from: number;
  /** The greatest duration of the search in milliseconds of real time. */
  readonly limit: number;
  readonly signal: AbortSignal;
  /** Starts a process that runs seeds against the mutated build. */
  start(): Runner;
  /**
   * Returns whether the mutant caused the violation: the violation must happen again in a new process, and not happen
   * with the unmodified library. The time of this check does not count towards the limit.
   */
  confirm(report: SeedReport): Promise<boolean>;
}

/** Runs one seed after the other until a confirmed violation is found or the limit is reached. */
export async function searchViolation(options: SearchOptions): Promise<Search> {
  const { run, workers, from, limit, signal, start, confirm } = options;
  let seed = from;
  let spent = 0;
  const result = (finding?: Finding) => ({ finding, seconds: spent / 1000, seeds: seed - from });
  while (!signal.aborted && spent < limit) {
    const began = performance.now();
    const runners = Array.from({ length: workers }, start);
    const report = await firstViolation(
      runners,
      () => ({ ...run, seed: seed++ }),
      limit - spent,
      signal,
    );
    spent += performance.now() - began;
    if (!report || !(await confirm(report))) continue;
    const { property, message } = report.violations[0]!;
    return result({ seed: report.seed, property, message });
  }
  return result();
}

/** Runs seeds on all runners until one of them violates a property, and closes the runners. */
async function firstViolation(
  runners: readonly Runner[],
  next: () => RunOptions,
  limit: number,
  signal: AbortSignal,
): Promise<SeedReport | undefined> {
  let over = signal.aborted;
  let found: SeedReport | undefined;
  const closeAll = () => Promise.all(runners.map((runner) => runner.close()));
  const end = () => {
    over = true;
    void closeAll();
  };
  const work = async (runner: Runner) => {
    while (!over) {
      const report = await runner.run(next());
      // A process that was killed at the end reports a violation that says nothing about the library.
      if (over || report.violations.length === 0) continue;
      found = report;
      end();
    }
  };
  const timer = setTimeout(end, limit);
  signal.addEventListener('abort', end);
  try {
    await Promise.all(
      runners.map((runner) =>
        work(runner).catch((error: unknown) => {
          if (over) return;
          over = true;
          throw error;
        }),
      ),
    );
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', end);
    await closeAll();
  }
  return found;
}
