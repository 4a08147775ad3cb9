import { serveRequests } from '../worker-process.js';
import { loadLibrary } from './library.js';
import { reportSeed } from './seed-report.js';
import type { RunOptions } from './types.js';
import { RUN_SEED } from './workloads.js';

// The module of a worker process, which runs seeds. Its argument is the build of the library. `--seed` shows stacks.

const library = await loadLibrary(process.argv[2]!);
serveRequests(async (options: RunOptions) => {
  const runSeed = RUN_SEED[options.workload];
  const { acquires: _, processes: __, ...report } = await reportSeed(runSeed, library, options);
  return report;
});
