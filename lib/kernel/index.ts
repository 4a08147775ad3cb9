export { runDetached } from './call-chain.js';
export { hasEnded } from './dead-holder.js';
export { DelayedWatches } from './delayed-watches.js';
export {
  IllegalStateError,
  LeaseLostError,
  LockTimeoutError,
  RecipeConflictError,
  SequenceExhaustedError,
  WaitTimeoutError,
} from './errors.js';
export { ErrorReporter } from './error-reporter.js';
export { Grant, RESOLVED } from './grant.js';
export { duration, type Lease, WAIT_RULES } from './lease.js';
export { queueOf } from './node-names.js';
export { THIS_PROCESS } from './node-data.js';
export { NodeWatch } from './node-watch.js';
export { childrenOf, readCandidates } from './participants.js';
export { deleteOwn, findUnique, protectedCreate, repeatCreate, uniqueId } from './own-node.js';
export { createPersistent, setPersistent } from './persistent-znode.js';
export {
  BackgroundRecipe,
  CLOSE_TIMEOUT,
  RETRY_AFTER,
  RETRY_REFUSED_AFTER,
  retryPause,
  SessionLoop,
} from './session-loop.js';
export {
  assertSameSession,
  isConnectionLoss,
  isLostReply,
  retryInSession,
  retryLostReply,
  retryRead,
  stateChange,
  waitForConnection,
} from './session-retry.js';
export { WaitLimit, type WaitOptions } from './wait-limit.js';
export { LeaseTerm } from './term.js';
export type { LockKind } from './types.js';
export { busy, cancelled, timedOut, Waiter, type WaitRequest } from './waiter.js';
