import type { SeedReport } from './seed-report.js';
import type { Fault, Violation } from './types.js';

export interface ShrinkLimits {
  /** The greatest number of runs. */
  readonly runs: number;
  /** The greatest number of milliseconds of real time. */
  readonly milliseconds: number;
  readonly signal?: AbortSignal;
}

/** The result of shrinking. */
export interface Shrunk {
  readonly faults: readonly Fault[];
  /** The violation of the run with these faults. */
  readonly violation: Violation;
}

/**
 * Searches for a shorter list of faults that still violates the same property: first the shortest failing prefix of
 * the list, then shorter lists without single faults. Leaving out a fault changes the whole schedule, so a list is
 * accepted only after a run with it has failed. When a limit is reached, returns the shortest list so far.
 *
 * @param report the report of the run that failed
 * @param run runs the seed with the faults of the given indexes
 */
export async function shrink(
  report: SeedReport,
  run: (faults: readonly number[]) => Promise<SeedReport>,
  { runs, milliseconds, signal }: ShrinkLimits,
): Promise<Shrunk> {
  const { property } = report.violations[0]!;
  const deadline = performance.now() + milliseconds;
  let best: Shrunk = { faults: report.faults, violation: report.violations[0]! };
  let runsLeft = runs;

  const stillFails = async (faults: readonly Fault[]): Promise<boolean> => {
    if (runsLeft <= 0 || performance.now() > deadline || signal?.aborted) return false;
    runsLeft--;
    const { violations } = await run(faults.map(({ index }) => index));
    const violation = violations.find((each) => each.property === property);
    if (!violation || signal?.aborted) return false;
    best = { faults, violation };
    return true;
  };

  for (let length = 0; length < report.faults.length; length++) {
    if (await stillFails(report.faults.slice(0, length))) break;
  }
  let dropped: boolean;
  do {
    dropped = false;
    for (const fault of best.faults) {
      const remaining = best.faults.filter((each) => each !== fault);
      if (await stillFails(remaining)) dropped = true;
    }
  } while (dropped);
  return best;
}
