import { type Failure, toFailure } from './failure.js';
import type { Figures } from './figures.js';
import type { SeedReport } from './seed-report.js';
import { shrink, type Shrunk } from './shrink.js';
import type { RunOptions, EmbeddedServerKind, WorkloadName } from './types.js';

/** Runs seeds. `SeedWorker` is the implementation that runs them in a worker process. */
export interface Runner {
  run(options: RunOptions): Promise<SeedReport>;
  close(): Promise<void>;
}

export interface SeedsOptions {
  /** The seeds to run. All runners take their seeds from this iterator. */
  readonly seeds: Iterator<number>;
  readonly runners: readonly Runner[];
  readonly figures: Figures;
  readonly workload: WorkloadName;
  readonly server: EmbeddedServerKind;
  /** The build of the library to test. */
  readonly lib: string;
  readonly signal: AbortSignal;
  /** Called after each seed. */
  onSeed(): void;
  onFailure(failure: Failure): void;
}

/** The number of failures that are shrunk. Later failures are reported with all faults of their seeds. */
const MAX_SHRUNK = 3;
const SHRINK_LIMITS = { runs: 200, milliseconds: 60_000 };

/**
 * Runs seeds on all runners at the same time until no seed is left or the signal aborts. Closes the runners.
 */
export async function runSeeds(options: SeedsOptions): Promise<void> {
  const { seeds, runners, figures, workload, server, lib, signal } = options;
  let shrunkCount = 0;
  let stopped = false;
  const closeAll = () => Promise.all(runners.map((runner) => runner.close()));
  const onAbort = () => void closeAll();
  signal.addEventListener('abort', onAbort);

  const work = async (runner: Runner) => {
    for (;;) {
      const { value: seed, done } = seeds.next();
      if (done || stopped || signal.aborted) return;
      const report = await runner.run({ seed, workload, server });
      // The abort may have killed the worker process during the run.
      if (signal.aborted) return;
      figures.add(report);
      options.onSeed();
      if (report.violations.length === 0) continue;
      let shrunk: Shrunk | undefined;
      if (report.faults.length > 0 && shrunkCount++ < MAX_SHRUNK) {
        const run = (faults: readonly number[]) => runner.run({ seed, workload, server, faults });
        shrunk = await shrink(report, run, { ...SHRINK_LIMITS, signal });
      }
      options.onFailure(toFailure(report, { workload, server, lib, shrunk }));
    }
  };
  try {
    await Promise.all(
      runners.map((runner) =>
        work(runner).catch((error: unknown) => {
          stopped = true;
          if (!signal.aborted) throw error;
        }),
      ),
    );
  } finally {
    signal.removeEventListener('abort', onAbort);
    await closeAll();
  }
}
