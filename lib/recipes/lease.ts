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
   * it has seen: then a holder that was paused past its session can do no harm. A signed 64-bit integer.
   */
  readonly fencingToken: bigint;
  /** Aborts, with a {@link LeaseLostError} as its reason, the moment the lease can no longer be trusted. */
  readonly signal: AbortSignal;
  /** True until the lease is released or lost. */
  readonly held: boolean;
  /**
   * Gives the lock back. `held` is false at once; the promise resolves when the ensemble has
   * answered, or when the connection is away and the deletion is left to the background. Idempotent,
   * never rejects.
   */
  release(): Promise<void>;
}

/** @publicApi */
export interface AcquireOptions {
  /**
   * Milliseconds to wait for the lock while others hold it: 0 only tries, Infinity waits for ever.
   * Trouble with the connection is not contention: the client's retry policy bounds it. Default Infinity.
   */
  wait?: number;
  /** Cancels the wait: the acquire rejects with a {@link WaitCancelledError}. */
  signal?: AbortSignal;
}
