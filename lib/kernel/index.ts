export { runDetached } from './call-chain.js';
export { DelayedWatches } from './delayed-watches.js';
export {
  IllegalStateError,
  LeaseLostError,
  LockTimeoutError,
  RecipeConflictError,
  SequenceExhaustedError,
} from './errors.js';
export { Grant, RESOLVED } from './grant.js';
export { duration, type Lease, WAIT_RULES } from './lease.js';
export { queueOf } from './node-names.js';
export { THIS_PROCESS } from './node-data.js';
export { NodeWatch } from './node-watch.js';
export { ParentContainers } from './parent-containers.js';
export { childrenOf, readCandidates } from './participants.js';
export { protectedCreate, uniqueId } from './protected-create.js';
export { assertSameSession, retryRead, stateChange } from './session-retry.js';
export { LeaseTerm } from './term.js';
export { busy, cancelled, timedOut, Waiter, type WaitRequest } from './waiter.js';
