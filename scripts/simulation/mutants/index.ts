import { BARRIER_MUTANTS } from './barrier.js';
import { CACHE_MUTANTS } from './cache.js';
import { COUNTER_MUTANTS } from './counter.js';
import { CRON_MUTANTS } from './cron.js';
import { DISTRIBUTED_QUEUE_MUTANTS } from './distributed-queue.js';
import { GRANT_MUTANTS } from './grants.js';
import { GUARDED_WRITE_MUTANTS } from './guarded-writes.js';
import type { Mutant } from './mutant.js';
import { NEST_MUTANTS } from './nest.js';
import { PARTITION_MUTANTS } from './partitions.js';
import { QUEUE_MUTANTS } from './queues.js';
import { RECIPE_MUTANTS } from './recipes.js';
import { SESSION_MUTANTS } from './sessions.js';

/** All mutants. If a mutant survives, add a property that finds it; do not remove the mutant. */
export const MUTANTS: readonly Mutant[] = [
  ...SESSION_MUTANTS,
  ...QUEUE_MUTANTS,
  ...GRANT_MUTANTS,
  ...RECIPE_MUTANTS,
  ...NEST_MUTANTS,
  ...PARTITION_MUTANTS,
  ...DISTRIBUTED_QUEUE_MUTANTS,
  ...GUARDED_WRITE_MUTANTS,
  ...COUNTER_MUTANTS,
  ...CACHE_MUTANTS,
  ...BARRIER_MUTANTS,
  ...CRON_MUTANTS,
];
