import { BadOptionError } from '../client/errors.js';
import type { TransactionOperation, TransactionResults } from '../client/index.js';
import { MAX_TIMER } from '../client/sleep.js';
import { checkOptions } from '../client/validation.js';
import type { HolderDetails } from './types.js';

/**
 * A right to a lock, until it is released or lost.
 *
 * @publicApi
 */
export interface Lease extends AsyncDisposable {
  /** The key of the lock; its path if it has no key. */
  readonly key: string;
  /** The parent znode of the lock. */
  readonly path: string;
  /**
   * A number that rises from one exclusive grant of a path to the next, over processes, sessions and restarts. Pass it to
   * the store that the lock protects, and let the store refuse a lower number than it has seen. Then a holder that was
   * paused beyond the end of its session can do no harm. It fits a signed 64-bit integer. Concurrent readers may have the
   * same number. The number of a semaphore identifies a grant and fences nothing.
   */
  readonly fencingToken: bigint;
  /**
   * Aborts with a {@link LeaseLostError} when the lease can no longer be trusted. After a pause of the process, reading
   * this property returns a signal that has aborted. A signal that was read before the pause aborts one turn of the event
   * loop later.
   */
  readonly signal: AbortSignal;
  /**
   * Aborts with a {@link LockRevokedError} when somebody asks for the lock. The holder decides when it releases the lock.
   * Curator's makeRevocable.
   */
  readonly revocation: AbortSignal;
  /** True until the lease is released or lost. Reads the clock of the session. */
  readonly held: boolean;
  /**
   * Carries out a ZooKeeper transaction as {@link ZkClient.transaction} does, if the lease is held when it is applied: the
   * transaction begins with a check that the znode of this lease exists. So it is never applied after another holder was
   * granted the lock, however long this process was paused. For data in ZooKeeper this replaces the fencing token. Without
   * operations it only asks the server whether the lease is held.
   *
   * Rejects with a {@link LeaseLostError} if the lease is lost or released: then nothing was changed. Rejects with a
   * {@link ConnectionError} with `maybeApplied` if the reply was lost: then the transaction was applied while the lease was
   * held, or not at all. All other errors are those of {@link ZkClient.transaction}. Curator has no counterpart
   * (CURATOR-689).
   */
  transaction<const T extends readonly TransactionOperation[]>(
    operations: T,
  ): Promise<TransactionResults<T>>;
  /**
   * Releases the lock. `held` is false at once. The promise resolves when the ensemble has replied, or when the deletion
   * is left to the background because the connection is lost or `holdAtLeast` is not over. Idempotent; never rejects.
   */
  release(): Promise<void>;
}

/** What the leases of all recipes have in common: a release that happens once. */
export abstract class LeaseBase implements Lease {
  abstract readonly key: string;
  abstract readonly path: string;
  abstract readonly fencingToken: bigint;
  abstract readonly signal: AbortSignal;
  abstract readonly revocation: AbortSignal;
  abstract readonly held: boolean;
  /** Called when the release has ended, before the caller learns of it. Services set it, for a shutdown that waits. */
  onReleased: (() => void) | undefined;
  private returned: Promise<void> | undefined;

  /** Whether `release` was called. Other leases on the same grant may still be held. */
  get released(): boolean {
    return this.returned !== undefined;
  }

  abstract transaction<const T extends readonly TransactionOperation[]>(
    operations: T,
  ): Promise<TransactionResults<T>>;

  release(): Promise<void> {
    if (!this.returned) {
      this.returned = this.giveBack();
      if (this.onReleased) this.returned.then(this.onReleased, this.onReleased);
    }
    return this.returned;
  }

  /** Returns what loggers print: without the parts, which lead to the client, and without a bigint. */
  toJSON(): object {
    const { key, path, held, fencingToken } = this;
    return { key, path, held, fencingToken: String(fencingToken) };
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.release();
  }

  protected abstract giveBack(): Promise<void>;
}

/**
 * The order of the callers of a lock; see {@link AcquireOptions.fairness}.
 *
 * @publicApi
 */
export type Fairness = 'handover' | 'strict';

/**
 * The options of every acquire.
 *
 * @publicApi
 */
export interface AcquireOptions {
  /**
   * Milliseconds that the call waits at most, for other holders and for a connection. 0 is a try: it rejects with a
   * {@link LockBusyError} if others hold the lock. If the holder uses `linger`, a try waits up to 500 ms, in which the
   * process of that holder deletes the znode of a lock that nobody uses. The same applies to a try for permits while
   * other processes acquire theirs. Default Infinity.
   *
   * Without a connection for all of `wait`, or for as long as the retry policy of the client allows, the call rejects with
   * a {@link ConnectionError}: a try after 2 seconds without a connection, and after 3 seconds in which a connected server
   * does not reply.
   */
  wait?: number | undefined;
  /** Cancels the wait. The acquire rejects with a {@link WaitCancelledError}. Default: none. */
  signal?: AbortSignal | undefined;
  /**
   * Milliseconds after the grant for which the lock stays taken, even if it is released earlier, so that a short job does
   * not run again on a machine whose clock is late. Ends with the process or its session. Less than 24 days, and at most
   * `holdAtMost`. Default 0.
   */
  holdAtLeast?: number | undefined;
  /**
   * Milliseconds after the grant until the lease is lost and the lock is released, so that a holder that hangs does not
   * block others forever. Default Infinity.
   */
  holdAtMost?: number | undefined;
  /**
   * The order of the callers of one process. `'handover'`, the default, hands the lock over from one caller to the next
   * without a request, behind one znode. While other processes wait, this lasts for at most 10 ms or 512 grants; then the
   * process joins the end of the queue. `'strict'` creates a znode for each caller, as Curator does, so that all callers of
   * all processes get the lock in the order of their arrival.
   */
  fairness?: Fairness | undefined;
  /**
   * Milliseconds for which the znode stays after the release, so that the next caller of this process gets the lock
   * without a round trip. Another process that asks for the free lock gets it, also with `wait: 0`, after a few messages
   * between the two processes and the server. While the lock is held, such a try may take 500 ms to be refused.
   * {@link Participant.mayLinger} shows it to other processes. A znode that readers share lingers only if the first of
   * them asked for it. Permits and the locks of a multi-lock do not linger. Less than 24 days. Default 0.
   */
  linger?: number | undefined;
  /**
   * What happens to a wait in a cycle of waits; `'refuse'` can reject a wait that would have ended, because the library
   * knows that a call chain which holds a lock waits for another one, but not that the holder awaits that wait. Start
   * what its caller does not await with {@link runDetached}: it is then outside of the chain. In the cycle, each
   * call chain, in this or in another process, waits for a lock that the next one holds. `'report'`, the default,
   * continues to wait. `'refuse'` rejects one wait of the cycle with a {@link DeadlockError}: of those that may be
   * refused, usually the latest. In both cases {@link onDeadlock} reports the cycle.
   */
  onDeadlock?: 'report' | 'refuse' | undefined;
  /** Stored in the znode beside the host and process id, together at most 4,096 bytes of JSON. Default: nothing. */
  details?: HolderDetails | undefined;
}

export const ACQUIRE_OPTIONS = [
  'wait',
  'signal',
  'holdAtLeast',
  'holdAtMost',
  'fairness',
  'linger',
  'onDeadlock',
  'details',
] as const satisfies (keyof AcquireOptions)[];

/** The options of a wait. */
export const WAIT_OPTIONS = ['wait', 'signal'] as const satisfies (keyof AcquireOptions)[];

/** Checks the names and the values of the options of an acquire. */
export function checkAcquire(
  options: AcquireOptions,
  known: readonly string[] = ACQUIRE_OPTIONS,
): void {
  checkOptions(options, known);
  checkAcquireValues(options);
}

/**
 * Checks the values of the options that every acquire takes.
 *
 * @param nameOf returns the name of an option in errors; default: the option itself
 */
export function checkAcquireValues(
  options: AcquireOptions,
  nameOf?: (option: string) => string,
): void {
  const { wait, signal, holdAtLeast, holdAtMost, fairness, linger, onDeadlock } = options;
  let wrong: [option: string, value: unknown, expected: string] | undefined;
  if (isBelow(wait, 0)) {
    wrong = ['wait', wait, '0 or more milliseconds, or Infinity'];
  } else if (isBelow(linger, 0)) {
    wrong = ['linger', linger, '0 or more milliseconds'];
  } else if ((linger ?? 0) > MAX_TIMER) {
    wrong = ['linger', linger, 'less than 24 days'];
  } else if (fairness !== undefined && fairness !== 'handover' && fairness !== 'strict') {
    wrong = ['fairness', fairness, "'handover' or 'strict'"];
  } else if (onDeadlock !== undefined && onDeadlock !== 'report' && onDeadlock !== 'refuse') {
    wrong = ['onDeadlock', onDeadlock, "'report' or 'refuse'"];
  } else if (isBelow(holdAtLeast, 0)) {
    wrong = ['holdAtLeast', holdAtLeast, '0 or more milliseconds'];
  } else if (isBelow(holdAtMost, 1)) {
    wrong = ['holdAtMost', holdAtMost, '1 or more milliseconds, or Infinity'];
  } else if ((holdAtLeast ?? 0) > Math.min(holdAtMost ?? Infinity, MAX_TIMER)) {
    wrong = ['holdAtLeast', holdAtLeast, 'less than 24 days and than holdAtMost'];
  } else if (signal !== undefined && !(signal instanceof AbortSignal)) {
    wrong = ['signal', signal, 'an AbortSignal'];
  }
  if (!wrong) return;
  const [option, value, expected] = wrong;
  throw new BadOptionError(nameOf ? nameOf(option) : option, value, expected);
}

/** Whether a value is given and is not a number of at least `min`. */
function isBelow(value: unknown, min: number): boolean {
  return value !== undefined && !(typeof value === 'number' && value >= min);
}
