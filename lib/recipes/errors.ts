import { CoordinationError, type CoordinationErrorOptions } from '../client/errors.js';
import type { DeadlockMember } from './types.js';

/**
 * Others held the lock, and the caller did not wait (`wait: 0`).
 *
 * @publicApi
 */
export class LockBusyError extends CoordinationError {
  readonly code = 'BUSY';
}

/**
 * The lock was not granted, or the election not won, within `wait` milliseconds.
 *
 * @publicApi
 */
export class LockTimeoutError extends CoordinationError {
  readonly code = 'TIMEOUT';
}

/**
 * The lease ended before it was released, because of its `cause`. Another process may hold the lock by now.
 *
 * @publicApi
 */
export class LeaseLostError extends CoordinationError {
  readonly code = 'LEASE_LOST';
}

/**
 * The reason of the signal `lease.revocation`: somebody asked the holder to release the lock. It is not thrown.
 *
 * @publicApi
 */
export class LockRevokedError extends CoordinationError {
  readonly code = 'REVOKED';
}

/**
 * This instance does not lead the election.
 *
 * @publicApi
 */
export class NotLeaderError extends CoordinationError {
  readonly code = 'NOT_LEADER';
}

/**
 * The state of a leader latch or selector does not allow the call: it was started twice, or used after its close.
 * Curator's IllegalStateException.
 *
 * @publicApi
 */
export class IllegalStateError extends CoordinationError {
  readonly code = 'ILLEGAL_STATE';
}

/**
 * The asynchronous call chain of the caller holds the lock already, so the wait would never end.
 *
 * @publicApi
 */
export class SelfDeadlockError extends CoordinationError {
  readonly code = 'SELF_DEADLOCK';
}

/**
 * The path contains znodes of another recipe, or the znode of a SharedCount has data of another format. Two recipes on one
 * path would not exclude each other. All users of the path get this error, because none of them can know which recipe is
 * the intended one.
 *
 * @publicApi
 */
export class RecipeConflictError extends CoordinationError {
  readonly code = 'RECIPE_CONFLICT';
}

/**
 * The sequence numbers under this path are used up, so all later znodes would have the same number. Delete the path while
 * nobody uses it, or use another one.
 *
 * @publicApi
 */
export class SequenceExhaustedError extends CoordinationError {
  readonly code = 'SEQUENCE_EXHAUSTED';
}

/**
 * The wait was refused (`onDeadlock: 'refuse'`), because it closed a cycle of waits. The cycle would never end, unless one
 * of the holders does not await its wait. Release the locks that are held, and try again.
 *
 * @publicApi
 */
export class DeadlockError extends CoordinationError {
  readonly code = 'DEADLOCK';

  constructor(
    message: string,
    /** The participants of the cycle: each waits for the lock of the next one, and the last for that of the first. */
    readonly cycle: readonly DeadlockMember[],
    options: CoordinationErrorOptions,
  ) {
    super(message, options);
  }
}
