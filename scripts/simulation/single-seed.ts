import { writeFile } from 'node:fs/promises';
import { loadLibrary } from './library.js';
import type { SingleSeed } from './options.js';
import { runSeed } from './run-seed.js';
import { reportSeed } from './seed-report.js';
import { tracePage } from './trace-page.js';
import type { Report } from './types.js';
import { warnWhenLate } from './watchdog.js';

/** Milliseconds of real time after which a warning about a run that has not ended is printed. */
const LATE = 60_000;

/**
 * Runs one seed in this process, and writes its trace.
 *
 * @throws UsageError where the seed has no fault of an index that was asked for
 */
export async function runSingleSeed({ seed, faults, trace, lib }: SingleSeed): Promise<Report> {
  const library = await loadLibrary(lib);
  const text = `seed ${seed} has not ended after ${LATE / 1000} s; a debugger shows what it does`;
  const stopWarning = await warnWhenLate(text, LATE);
  const options = { seed, faults, timeline: trace !== undefined };
  const report = await reportSeed(runSeed, library, options);
  stopWarning();
  if (trace !== undefined) await writeFile(trace, tracePage(report));
  return report;
}
