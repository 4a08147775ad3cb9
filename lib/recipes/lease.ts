import type { HolderDetails } from './types.js';

/**
 * A right to a lock, until it is released or lost.
 *
 * @publicApi
 */
export interface Lease extends AsyncDisposable {
  /** The key the lock was asked for by; the path where it was asked for by path. */
  readonly key: string;
  /** The parent znode of the lock. */
  readonly path: string;
  /**
   * Rises strictly from one exclusive grant of a path to the next, over processes, sessions and
   * restarts. Hand it to the store that the lock protects, and let the store refuse a lower one than
   * it has seen: then a holder that was paused past its session can do no harm. A signed 64-bit
   * integer. Concurrent readers may have the same; a semaphore's names a grant and fences nothing.
   */
  readonly fencingToken: bigint;
  /**
   * Aborts, with a {@link LeaseLostError} as its reason, the moment the lease can no longer be trusted.
   * After a pause of the process it has aborted for whoever reads this property anew; one that was read
   * before the pause aborts a turn of the event loop later.
   */
  readonly signal: AbortSignal;
  /**
   * Aborts, with a {@link LockRevokedError} as its reason, when somebody asks for the lock. A request,
   * no more: the holder decides when it releases. Curator's makeRevocable.
   */
  readonly revocation: AbortSignal;
  /** True until the lease is released or lost. */
  readonly held: boolean;
  /**
   * Gives the lock back. `held` is false at once; the promise resolves when the ensemble has
   * answered, or when the deletion is left to the background because the connection is away or
   * `holdAtLeast` is not over. Idempotent, never rejects.
   */
  release(): Promise<void>;
}

/**
 * Who follows whom; see {@link AcquireOptions.fairness}.
 *
 * @publicApi
 */
export type Fairness = 'handover' | 'strict';

/**
 * What every acquire takes.
 *
 * @publicApi
 */
export interface AcquireOptions {
  /**
   * Milliseconds to wait for the lock while others hold it: 0 only tries, Infinity waits for ever.
   * A try for a lock whose holder uses `linger` may take 500 ms to be refused: the lock may be free, and
   * then its process deletes the znode within that time. So may a try for permits while other processes ask
   * for theirs. Trouble with the connection is not contention: the client's retry policy bounds it. Default
   * Infinity.
   */
  wait?: number;
  /** Cancels the wait: the acquire rejects with a {@link WaitCancelledError}. */
  signal?: AbortSignal;
  /**
   * Milliseconds from the grant on that the lock stays taken, however early it is released, so that a
   * short job does not run again on a machine whose clock is late. Ends with the process or its
   * session. Default 0.
   */
  holdAtLeast?: number;
  /**
   * Milliseconds from the grant on after which the lease is lost and the lock given up, so that a
   * holder that hangs blocks nobody for ever. Default Infinity.
   */
  holdAtMost?: number;
  /**
   * How callers of one process follow each other. `'handover'`, the default, hands the lock from one to
   * the next without the network, behind one znode; while others wait elsewhere, for 10 ms or 512 grants,
   * then the process goes to the end of their queue. `'strict'` has a znode for each caller, as Curator,
   * so that all callers of all processes follow each other in the order of their arrival.
   */
  fairness?: Fairness;
  /**
   * Milliseconds that the znode stays after the release, so that the next caller of this process has the
   * lock without a round trip. Another process that asks for the free lock is granted it, also with
   * `wait: 0`, after a few messages between the two processes and the server. While the lock is held, such
   * a try may take 500 ms to be refused. {@link Participant} shows a lingering znode as `'holding'`. The
   * znode that readers share lingers only if the first of them asked for it. Permits and the locks of a
   * multi-lock do not linger. Default 0.
   */
  linger?: number;
  /**
   * What becomes of a wait that closes a deadlock: a cycle of call chains, here or in other processes, each
   * of which waits for what the next one holds. `'report'`, the default, goes on waiting; `'refuse'` rejects
   * with a {@link DeadlockError}, one wait of the cycle: of those that may be refused, as a rule the latest. Either way
   * it is told to {@link onDeadlock}.
   */
  onDeadlock?: 'report' | 'refuse';
  /** What others see of this holder. Default: its host and process id alone. */
  details?: HolderDetails;
}

/** What JSON.stringify says of a lease: of its parts it would follow each to the client, and stop at a bigint. */
export function leaseToJSON({ key, path, held, fencingToken }: Lease): object {
  return { key, path, held, fencingToken: String(fencingToken) };
}
