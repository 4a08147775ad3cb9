import { UsageError } from './options.js';
import type { Library, Report, RunOptions, RunSeed, Violation } from './types.js';

/** The report of a seed without the data of a timeline. Worker processes send this part. */
export type SeedReport = Omit<Report, 'acquires' | 'processes'>;

/**
 * Runs a seed. The report lists the selected faults only. An error of the simulator is reported as a violation.
 *
 * @throws UsageError if the seed has no fault of a selected index
 */
export async function reportSeed(
  runSeed: RunSeed,
  library: Library,
  options: RunOptions,
): Promise<Report> {
  const { seed, faults: indexes } = options;
  const report = await runSeed(library, options).catch((error: unknown) => ({
    ...failedReport(seed, 'the simulation ends without an error', describe(error)),
    digest: digestOf(error),
    acquires: [],
    processes: [],
  }));
  // The report of an error lists no faults, so the indexes cannot be checked.
  if (!indexes || report.processes.length === 0) return report;
  const unknown = indexes.find((index) => report.faults.every((fault) => fault.index !== index));
  if (unknown !== undefined) throw new UsageError(`--faults: seed ${seed} has no fault ${unknown}`);
  return { ...report, faults: report.faults.filter(({ index }) => indexes.includes(index)) };
}

/** Returns a report with one violation for a run that returned none. */
export function failedReport(seed: number, property: string, message: string): SeedReport {
  const violation: Violation = { property, message, at: 0 };
  return {
    seed,
    digest: '',
    duration: 0,
    events: 0,
    grants: 0,
    faults: [],
    violations: [violation],
  };
}

/** Describes an error with its stack. A `SimulationError` has the seed and the time, and its cause has the stack. */
function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { cause } = error;
  return cause instanceof Error
    ? `${error.message}\n${cause.stack}`
    : (error.stack ?? error.message);
}

function digestOf(error: unknown): string {
  const digest = (error as { digest?: unknown } | null)?.digest;
  return typeof digest === 'string' ? digest : '';
}
