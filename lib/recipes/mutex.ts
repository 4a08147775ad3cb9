import type { ZkClient } from '../client/index.js';
import { checkPath } from '../client/validation.js';
import { grantInChain, runHolding } from './chain.js';
import { SelfDeadlockError, LockBusyError, LockTimeoutError } from './errors.js';
import type { Grant } from './grant.js';
import { HOLDER_DETAILS } from './holder-details.js';
import type { AcquireOptions, Lease } from './lease.js';
import { ownerOf } from './mutex-owner.js';
import { checkSignal, checkWait } from './wait.js';

/*
 * Mutex (Curator's InterProcessMutex):
 *
 *   1. Create an ephemeral sequential node `_c_<uuid>-lock-` under the path and list the children.
 *   2. The lowest sequence number holds the lock.
 *   3. Everybody else watches the node just before its own and lists again when that one goes.
 *   4. Releasing the lock deletes the node.
 */

/** @publicApi */
export interface MutexOptions {
  /** What errors, leases and `currentLease` call the lock. Default: the path. */
  key?: string;
  /** False makes `withLock` and `enter` fail where the call chain holds the lock. Default true. */
  reentrant?: boolean;
}

/**
 * One entry into a lock by a holder that is not a callback, such as a stream: whatever runs in `run`
 * counts as the holder until `release`.
 *
 * @publicApi
 */
export interface Entry {
  readonly lease: Lease;
  run<T>(fn: () => T): T;
  /** As {@link Lease.release}. */
  release(): Promise<void>;
}

/**
 * An exclusive lock on the znode `path`, fair between processes and within this one, shared with
 * every Curator `InterProcessMutex` and every other `Mutex` on that path. `withLock` and `enter`
 * re-enter along the asynchronous call chain as Curator does along the thread. Making one costs
 * nothing and holds nothing: make it where it is used.
 *
 * Every acquire may reject with {@link LockBusyError}, {@link LockTimeoutError},
 * {@link WaitCancelledError}, {@link ConnectionError}, {@link NotAuthorizedError},
 * {@link ForeignNodeError}, {@link SequenceExhaustedError}, {@link ShuttingDownError} or
 * {@link BadOptionError}, and then has left no znode behind.
 *
 * @publicApi
 */
export class Mutex {
  private readonly key: string;
  private readonly reentrant: boolean;

  constructor(
    private readonly client: ZkClient,
    readonly path: string,
    { key = path, reentrant = true }: MutexOptions = {},
  ) {
    checkPath(path);
    this.key = key;
    this.reentrant = reentrant;
  }

  /** Runs `fn` as the holder of the lock and releases it when `fn` has settled. */
  async withLock<T>(fn: (lease: Lease) => T | Promise<T>, options?: AcquireOptions): Promise<T> {
    const entry = await this.enter(options);
    try {
      return await entry.run(() => fn(entry.lease));
    } finally {
      await entry.release();
    }
  }

  /** Takes the lock, or re-enters it, for a holder that is not a callback. */
  async enter(options: AcquireOptions = {}): Promise<Entry> {
    const outer = this.outerGrant();
    if (outer && !this.reentrant) throw this.selfDeadlock('with reentrant: false');
    const grant = outer ?? (await this.grant(options));
    const lease = grant.lease(this.key);
    return {
      lease,
      run: (fn) => runHolding(grant, lease, fn),
      release: () => lease.release(),
    };
  }

  /**
   * Takes the lock for whoever releases the lease, in any call chain. It cannot tell its caller's
   * chain about it, so it never re-enters: {@link SelfDeadlockError} where the chain holds the lock.
   */
  async acquire(options: AcquireOptions = {}): Promise<Lease> {
    if (this.outerGrant()) throw this.selfDeadlock('by acquire(), which never re-enters');
    return (await this.grant(options)).lease(this.key);
  }

  /** As {@link acquire}, but undefined where others hold the lock for all of `wait`, by default 0. */
  async tryAcquire(options: AcquireOptions = {}): Promise<Lease | undefined> {
    try {
      return await this.acquire({ wait: 0, ...options });
    } catch (error) {
      if (error instanceof LockBusyError || error instanceof LockTimeoutError) return undefined;
      throw error;
    }
  }

  private async grant({ wait = Infinity, signal }: AcquireOptions): Promise<Grant> {
    checkWait(wait);
    checkSignal(signal);
    // Trouble with the connection is bounded by the retry policy, and by that of each caller alone.
    await this.client.session({ signal });
    const owner = ownerOf(this.client, {
      parent: this.path,
      marker: 'lock-',
      data: HOLDER_DETAILS,
    });
    return owner.acquire(this.key, wait, signal);
  }

  private outerGrant(): Grant | undefined {
    const grant = grantInChain(this.client, this.path);
    // What was lost may be somebody else's by now: going on inside would be two holders (CURATOR-206).
    if (grant?.lost) throw grant.lost;
    return grant;
  }

  private selfDeadlock(how: string): SelfDeadlockError {
    return new SelfDeadlockError(
      `lock ${JSON.stringify(this.key)} is held by the call chain that asks for it again, ${how}; use withLock, or release it first`,
      { key: this.key },
    );
  }
}
