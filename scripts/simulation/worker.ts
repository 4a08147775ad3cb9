import { loadLibrary } from './library.js';
import { reportSeed } from './seed-report.js';
import type { RunOptions } from './types.js';
import { RUN_SEED } from './workloads.js';

/*
 * The module of a worker process, which runs seeds for `SeedWorker`, one after the other. Its argument is the build
 * of the library. It sends `ready`, and then one report for each message that it receives.
 */

// A terminal sends SIGINT to this process too. The command kills its worker processes itself.
process.on('SIGINT', () => {});
process.on('disconnect', () => process.exit());

// Reports contain no stacks, and capturing them would take a tenth of the time. `--seed` shows stacks.
Error.stackTraceLimit = 0;

const library = await loadLibrary(process.argv[2]!);
process.on('message', async (options: RunOptions) => {
  const runSeed = RUN_SEED[options.workload];
  const { acquires: _, processes: __, ...report } = await reportSeed(runSeed, library, options);
  process.send!(report);
});
process.send!('ready');
