import type { SeedReport } from './seed-report.js';
import type { Fault, Violation } from './types.js';

export interface ShrinkLimits {
  /** How many runs it takes at most. */
  readonly runs: number;
  readonly milliseconds: number;
  readonly signal?: AbortSignal;
}

export interface Shrunk {
  readonly faults: readonly Fault[];
  /** The violation of the run with these faults. */
  readonly violation: Violation;
}

/**
 * Looks for a short list of faults with which the same property is still violated: first the shortest
 * beginning of the list, then what is left after faults were dropped one by one. One fault less changes the
 * whole schedule, so each list counts only after a run of it has failed. When a limit is reached it
 * returns the shortest list so far.
 *
 * @param report of the run that failed
 * @param run runs the seed with the faults of these indexes
 */
export async function shrink(
  report: SeedReport,
  run: (faults: readonly number[]) => Promise<SeedReport>,
  { runs, milliseconds, signal }: ShrinkLimits,
): Promise<Shrunk> {
  const { property } = report.violations[0]!;
  const deadline = performance.now() + milliseconds;
  let best: Shrunk = { faults: report.faults, violation: report.violations[0]! };
  let left = runs;

  const stillFails = async (faults: readonly Fault[]): Promise<boolean> => {
    if (left <= 0 || performance.now() > deadline || signal?.aborted) return false;
    left--;
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
      const rest = best.faults.filter((each) => each !== fault);
      if (await stillFails(rest)) dropped = true;
    }
  } while (dropped);
  return best;
}
