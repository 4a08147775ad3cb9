import { writeFile } from 'node:fs/promises';
import { loadLibrary } from './library.js';
import type { SingleSeed } from './options.js';
import { reportSeed } from './seed-report.js';
import { tracePage } from './trace-page.js';
import type { Report } from './types.js';
import { warnWhenLate } from './watchdog.js';
import { RUN_SEED } from './workloads.js';

/** Milliseconds of real time after which a warning is printed if the run has not ended. */
const WARNING_DELAY = 60_000;

/**
 * Runs one seed in this process, and writes its timeline if the option `trace` is set.
 *
 * @throws UsageError if the seed has no fault of a selected index
 */
export async function runSingleSeed({
  seed,
  workload,
  server,
  faults,
  trace,
  lib,
}: SingleSeed): Promise<Report> {
  const library = await loadLibrary(lib);
  const text = `seed ${seed} has not ended after ${WARNING_DELAY / 1000} s; attach a debugger to see what it does`;
  const stopWarning = await warnWhenLate(text, WARNING_DELAY);
  const options = { seed, workload, server, faults, timeline: trace !== undefined };
  const report = await reportSeed(RUN_SEED[workload], library, options);
  stopWarning();
  if (trace !== undefined) await writeFile(trace, await tracePage(report));
  return report;
}
