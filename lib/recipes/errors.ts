import { CoordinationError, type CoordinationErrorOptions } from '../client/errors.js';
import type { DeadlockMember } from './types.js';

/**
 * The lock was taken and the caller would not wait (`wait: 0`).
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
 * The lease ended before it was released; `cause` says why. Somebody else may hold the lock by now.
 *
 * @publicApi
 */
export class LeaseLostError extends CoordinationError {
  readonly code = 'LEASE_LOST';
}

/**
 * Not an error of its own: the reason of `lease.revocation`. Somebody asked the holder to give the lock back.
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
 * A leader latch or selector was asked for what its state does not allow: started twice, or used after
 * its close. Curator's IllegalStateException.
 *
 * @publicApi
 */
export class IllegalStateError extends CoordinationError {
  readonly code = 'ILLEGAL_STATE';
}

/**
 * The caller's own asynchronous call chain holds the lock already, so that waiting would never end.
 *
 * @publicApi
 */
export class SelfDeadlockError extends CoordinationError {
  readonly code = 'SELF_DEADLOCK';
}

/**
 * The path holds the znodes of another recipe. Two recipes on one path would not exclude each other.
 * Whoever meets such a node gets this, also who uses the path as it is meant: neither can know that.
 *
 * @publicApi
 */
export class ForeignNodeError extends CoordinationError {
  readonly code = 'FOREIGN_NODE';
}

/**
 * ZooKeeper's sequence numbers under this path are used up: every later node would tie. Delete the
 * path while nobody uses it, or use another one.
 *
 * @publicApi
 */
export class SequenceExhaustedError extends CoordinationError {
  readonly code = 'SEQUENCE_EXHAUSTED';
}

/**
 * The wait was refused (`onDeadlock: 'refuse'`): it closed a cycle of waits that would never end. Give
 * back what is held, and try again.
 *
 * @publicApi
 */
export class DeadlockError extends CoordinationError {
  readonly code = 'DEADLOCK';

  constructor(
    message: string,
    /** Who holds what and waits for what: each for what the next one holds, the last for the first. */
    readonly cycle: readonly DeadlockMember[],
    options: CoordinationErrorOptions,
  ) {
    super(message, options);
  }
}
