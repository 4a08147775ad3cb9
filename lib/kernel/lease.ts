import { BadOptionError } from '../client/errors.js';
import type { TransactionOperation, TransactionResults } from '../client/index.js';
import { MAX_TIMER } from '../client/sleep.js';
import {
  ABORT_SIGNAL,
  checkOptions,
  milliseconds,
  oneOf,
  rule,
  type Rules,
  UNCHECKED,
} from '../client/validation.js';
import type { LeaseLostError } from './errors.js';
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
  /** Why it was lost. */
  abstract readonly lost: LeaseLostError | undefined;
  /** Called when the release has settled, before the caller learns of it. Services stop tracking the lease then. */
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
  /**
   * Cancels the wait. The acquire rejects with a {@link WaitCancelledError}. For a limit take `wait`: on Node 20, a signal of
   * `AbortSignal.any()` may miss an `AbortSignal.timeout()`. Default: none.
   */
  signal?: AbortSignal | undefined;
  /**
   * Milliseconds after the grant for which the lock stays taken, even if it is released earlier, so that a short job does
   * not run again on a machine whose clock is late. Ends with the process or its session. Less than 24 days, and at most
   * `holdAtMost`. Default 0.
   */
  holdAtLeast?: number | undefined;
  /**
   * Milliseconds after the grant until the lease is lost and the lock is released, so that a holder that hangs does not
   * block others forever. Less than 24 days, or Infinity. Default Infinity.
   */
  holdAtMost?: number | undefined;
  /**
   * The order of the callers of one process. `'handover'`, the default, hands the lock over from one caller to the next
   * without a request, behind one znode. While other processes wait, this lasts for at most 10 ms or 512 grants; then the
   * process joins the end of the queue. `'strict'` creates a znode for each caller, as Curator does. If all callers
   * use it, those of all processes get the lock in the order of their arrival.
   */
  fairness?: Fairness | undefined;
  /**
   * Milliseconds for which the znode stays after the release, so that the next caller of this process gets the lock
   * without a round trip. Another process that asks for the free lock gets it, also with `wait: 0`, after a few messages
   * between the two processes and the server. While the lock is held, such a try may take 500 ms to be refused.
   * `Participant.mayLinger` shows it to other processes. A znode that readers share lingers only if the first of
   * them asked for it. Permits and the locks of a multi-lock do not linger. Less than 24 days. Default 0.
   *
   * `'auto'` lets a lock linger only if this process has released it within the last 100 ms: for twice as long as it was
   * free, from 10 to 100 ms. Once another process has requested it while it lingered, the lock stops
   * lingering until it has been used twice more.
   */
  linger?: number | 'auto' | undefined;
  /** Stored in the znode beside the host and process id, together at most 4,096 bytes of JSON. Default: nothing. */
  details?: HolderDetails | undefined;
}

/** Milliseconds of a wait. */
export const duration = rule(
  '0 or more milliseconds, or Infinity',
  (value: unknown) => typeof value === 'number' && value >= 0,
);

/** The rules for the options of a wait. */
export const WAIT_RULES: Rules<Pick<AcquireOptions, 'wait' | 'signal'>> = {
  wait: duration,
  signal: ABORT_SIGNAL,
};

export const ACQUIRE_RULES: Rules<AcquireOptions> = {
  ...WAIT_RULES,
  holdAtLeast: rule(
    `0 to ${MAX_TIMER} milliseconds`,
    (value: unknown) => typeof value === 'number' && value >= 0 && value <= MAX_TIMER,
  ),
  holdAtMost: rule(
    `1 to ${MAX_TIMER} milliseconds, or Infinity`,
    (value: unknown) =>
      typeof value === 'number' && (value === Infinity || (value >= 1 && value <= MAX_TIMER)),
  ),
  fairness: oneOf('handover', 'strict'),
  linger: rule(
    `0 to ${MAX_TIMER} milliseconds, or 'auto'`,
    (value: unknown) => value === 'auto' || milliseconds(0)(value) === undefined,
  ),
  details: UNCHECKED,
};

/** Checks the options of an acquire. */
export function checkAcquire(
  options: AcquireOptions,
  rules: Rules<AcquireOptions> = ACQUIRE_RULES,
  nameOf?: (option: string) => string,
): void {
  checkOptions(options, rules, 'options', nameOf);
  if (options.holdAtLeast) checkHold(options, nameOf?.('holdAtLeast'));
}

/** @param option the name of `holdAtLeast` in errors */
export function checkHold(
  { holdAtLeast = 0, holdAtMost = Infinity }: AcquireOptions,
  option = 'holdAtLeast',
): void {
  if (holdAtLeast <= holdAtMost) return;
  const expected = `at most the ${holdAtMost} milliseconds of holdAtMost`;
  throw new BadOptionError(option, holdAtLeast, expected);
}
