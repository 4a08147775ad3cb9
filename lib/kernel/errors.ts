import { CoordinationError } from '../client/errors.js';

/**
 * Others held the lock, and the caller did not wait (`wait: 0`).
 * Cause: another caller of this process or of another one holds the lock, or all permits are taken.
 * Remedy: try again later, pass a `wait`, or report the conflict to the client.
 *
 * @publicApi
 */
export class LockBusyError extends CoordinationError {
  readonly code = 'BUSY';
}

/**
 * The lock was not granted, or the election not won, within `wait` milliseconds.
 * Cause: the callers ahead hold the lock for longer than `wait` in total, or a holder hangs.
 * Remedy: read the holders with `participants()` or the command line. Shorten the work under the lock, pass a longer
 * `wait`, or limit each hold with `holdAtMost`.
 *
 * @publicApi
 */
export class LockTimeoutError extends CoordinationError {
  readonly code = 'TIMEOUT';
}

/**
 * The lease ended before it was released, because of its `cause`. Another process may hold the lock by now.
 * Cause: the session ended, the connection was lost under the policy `standard`, `holdAtMost` was over, the znode of the
 * holder was deleted, or the client of a handler that returned an Observable disconnected.
 * Remedy: stop the work when `lease.signal` aborts, and pass `lease.fencingToken` to the store, so that it refuses a
 * late write. Then acquire the lock again.
 *
 * @publicApi
 */
export class LeaseLostError extends CoordinationError {
  readonly code = 'LEASE_LOST';
}

/**
 * The reason of the signal `lease.revocation`: somebody asked the holder to release the lock. It is not thrown.
 * Cause: another process called `revoke()`, or somebody ran the command `revoke`.
 * Remedy: release the lock as soon as the work allows it.
 *
 * @publicApi
 */
export class LockRevokedError extends CoordinationError {
  readonly code = 'REVOKED';
}

/**
 * This instance does not lead the election.
 * Cause: another instance leads, nobody leads at the moment, or this instance lost the leadership or gave it up.
 * Remedy: skip the call, let the leader do the work, or try again later. Work of a term stops when the
 * signal of the term aborts.
 *
 * @publicApi
 */
export class NotLeaderError extends CoordinationError {
  readonly code = 'NOT_LEADER';
}

/**
 * The state of a leader latch, a selector, a cache or a double barrier does not allow the call: it was started or entered
 * twice, or used after its close, or left without having entered. Curator's IllegalStateException.
 * Cause: the code called `start()` twice, or called a method before `start()` or after `close()`.
 * Remedy: start each of them once. After a close, create a new one.
 *
 * @publicApi
 */
export class IllegalStateError extends CoordinationError {
  readonly code = 'ILLEGAL_STATE';
}

/**
 * The asynchronous call chain of the caller holds the lock already, so the wait would never end.
 * Cause: a nested `acquire()`, which never re-enters; a nested acquire of a lock that is not reentrant; or a reader
 * that asks for `'write'`.
 * Remedy: use `withLock()`, which re-enters, or release the lock first. Start work that the caller does not await with
 * `runDetached()`.
 *
 * @publicApi
 */
export class SelfDeadlockError extends CoordinationError {
  readonly code = 'SELF_DEADLOCK';
}

/**
 * The path contains znodes of another recipe, or the znode of a SharedCount or of a counter has data of another format.
 * Two recipes on one path would not exclude each other. All users of the path get this error, because none of them can
 * know which recipe is the intended one.
 * Cause: one caller uses the path with one recipe, and another caller with another one: for example a key with `mode:
 * 'read'`, and the same key without `mode`.
 * Remedy: use a key of its own for each recipe. Stop the callers of the wrong recipe; their znodes end with their
 * sessions.
 *
 * @publicApi
 */
export class RecipeConflictError extends CoordinationError {
  readonly code = 'RECIPE_CONFLICT';
}

/**
 * The sequence numbers under this path are used up, so all later znodes would have the same number. Delete the path while
 * nobody uses it, or use another one.
 * Cause: ZooKeeper counts the children of a znode with 32 bits, and 2,147,483,647 of them were created.
 * Remedy: stop the users of the path, and delete the path.
 *
 * @publicApi
 */
export class SequenceExhaustedError extends CoordinationError {
  readonly code = 'SEQUENCE_EXHAUSTED';
}

/**
 * A wait of a recipe was not over within `wait` milliseconds: at a barrier, for the first copy of a cache, for the first
 * create of a persistent node, or for a connection to put an item into a queue. Waits for locks and elections reject with a
 * LockTimeoutError.
 * Cause: another process did not do what the caller waits for, or there was no connection.
 * Remedy: look for the process that is missing, or pass a longer `wait`.
 *
 * @publicApi
 */
export class WaitTimeoutError extends CoordinationError {
  readonly code = 'WAIT_TIMEOUT';
}
