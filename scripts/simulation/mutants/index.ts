import { GRANT_MUTANTS } from './grants.js';
import type { Mutant } from './mutant.js';
import { NEST_MUTANTS } from './nest.js';
import { QUEUE_MUTANTS } from './queues.js';
import { RECIPE_MUTANTS } from './recipes.js';
import { SESSION_MUTANTS } from './sessions.js';

/** All planted bugs. A mutant that survives means that a property is missing, not that the mutant should go. */
export const MUTANTS: readonly Mutant[] = [
  ...SESSION_MUTANTS,
  ...QUEUE_MUTANTS,
  ...GRANT_MUTANTS,
  ...RECIPE_MUTANTS,
  ...NEST_MUTANTS,
];
