import { type Failure, toFailure } from './failure.js';
import type { Figures } from './figures.js';
import type { SeedReport } from './seed-report.js';
import { shrink, type Shrunk } from './shrink.js';
import type { RunOptions } from './types.js';

/** Runs seeds, as `SeedWorker` does in another process. */
export interface Runner {
  run(options: RunOptions): Promise<SeedReport>;
  close(): Promise<void>;
}

export interface SeedsOptions {
  /** The seeds to run; the runners share it. */
  readonly seeds: Iterator<number>;
  readonly runners: readonly Runner[];
  readonly figures: Figures;
  /** The build of the library to test. */
  readonly lib: string;
  readonly signal: AbortSignal;
  /** Called after each seed. */
  onSeed(): void;
  onFailure(failure: Failure): void;
}

/** How many failures are shrunk; later ones are reported with all faults of their seeds. */
const MOST_SHRUNK = 3;
const SHRINK_LIMITS = { runs: 200, milliseconds: 60_000 };

/**
 * Runs seeds on all runners at the same time until there are none left or the signal aborts, and closes the
 * runners.
 */
export async function runSeeds(options: SeedsOptions): Promise<void> {
  const { seeds, runners, figures, lib, signal } = options;
  let shrunken = 0;
  let stopped = false;
  const closeAll = () => Promise.all(runners.map((runner) => runner.close()));
  const onAbort = () => void closeAll();
  signal.addEventListener('abort', onAbort);

  const work = async (runner: Runner) => {
    for (;;) {
      const { value: seed, done } = seeds.next();
      if (done || stopped || signal.aborted) return;
      const report = await runner.run({ seed });
      // The abort may have ended the process in the middle of the run.
      if (signal.aborted) return;
      figures.add(report);
      options.onSeed();
      if (report.violations.length === 0) continue;
      let shrunk: Shrunk | undefined;
      if (report.faults.length > 0 && shrunken++ < MOST_SHRUNK) {
        const run = (faults: readonly number[]) => runner.run({ seed, faults });
        shrunk = await shrink(report, run, { ...SHRINK_LIMITS, signal });
      }
      options.onFailure(toFailure(report, lib, shrunk));
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
