import { loadLibrary } from './library.js';
import { runSeed } from './run-seed.js';
import { reportSeed } from './seed-report.js';
import type { RunOptions } from './types.js';

/*
 * A process that runs seeds, one after the other, for `SeedWorker`. Its argument is the build of the library.
 * It sends `ready`, then one report for each message that it receives.
 */

// A terminal sends an interrupt to this process too. The command kills its workers itself.
process.on('SIGINT', () => {});
process.on('disconnect', () => process.exit());

// A report needs no stacks, and to capture them takes a tenth of the time. `--seed` shows them.
Error.stackTraceLimit = 0;

const library = await loadLibrary(process.argv[2]!);
process.on('message', async (options: RunOptions) => {
  const { acquires: _, processes: __, ...report } = await reportSeed(runSeed, library, options);
  process.send!(report);
});
process.send!('ready');
