import { runBarrier } from './barrier.js';
import { runCache } from './cache.js';
import { runCounter } from './counter.js';
import { runCron } from './cron.js';
import { runGuardedWrites } from './guarded-writes.js';
import { runPartitions } from './partitions.js';
import { runQueue } from './queue.js';
import { runSeed } from './run-seed.js';
import type { RunSeed, WorkloadName } from './types.js';

/** Runs one seed of each workload. */
export const RUN_SEED: Readonly<Record<WorkloadName, RunSeed>> = {
  locks: runSeed,
  partitions: runPartitions,
  queue: runQueue,
  'guarded-writes': runGuardedWrites,
  barrier: runBarrier,
  cache: runCache,
  counter: runCounter,
  cron: runCron,
};
