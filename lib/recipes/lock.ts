import type { ZkClient } from '../client/index.js';
import {
  BOOLEAN,
  checkBelowRoot,
  checkFunction,
  checkOptions,
  type Rules,
  STRING,
} from '../client/validation.js';
import { publishReentry, publishWait } from '../kernel/diagnostics.js';
import { LockBusyError, LockTimeoutError, SelfDeadlockError } from '../kernel/errors.js';
import { runHolding } from '../kernel/call-chain.js';
import { type Grant, RESOLVED } from '../kernel/grant.js';
import { type QueueEntry, readParticipants, revoke } from '../kernel/participants.js';
import { connectWithin } from '../kernel/waiter.js';
import { ACQUIRE_RULES, type AcquireOptions, checkAcquire, type Lease } from '../kernel/lease.js';
import type { Participant, LockKind } from '../kernel/types.js';

/**
 * The options of the constructor of a lock.
 *
 * @publicApi
 */
export interface LockConstructorOptions {
  /** The name of the lock in errors, in leases and for `currentLease`. Default: the path. */
  key?: string | undefined;
  /** If false, `withLock` and `enter` reject while the call chain holds the lock. Default true. */
  reentrant?: boolean | undefined;
}

export const CONSTRUCTOR_RULES: Rules<LockConstructorOptions> = { key: STRING, reentrant: BOOLEAN };

/**
 * An entry into a lock by a holder that is not a callback, such as a stream. Code that runs in `run` counts as the
 * holder until `release`.
 *
 * @publicApi
 */
export interface Entry {
  readonly lease: Lease;
  /**
   * Runs `fn` as the holder, any number of times. After `release`, `fn` still runs, but not as the holder: it has only
   * the leases of the call chain that calls `run`.
   */
  run<T>(fn: () => T): T;
  /** As {@link Lease.release}. */
  release(): Promise<void>;
}

/**
 * The base of all locks. Its constructor sends nothing, so an object can be made where it is used.
 *
 * Every acquire may reject with {@link LockBusyError}, {@link LockTimeoutError}, {@link WaitCancelledError},
 * {@link ConnectionError}, {@link NotAuthorizedError}, {@link RecipeConflictError}, {@link SequenceExhaustedError},
 * {@link ShuttingDownError} or {@link BadOptionError}; and, if its call chain holds the lock already, with
 * {@link SelfDeadlockError} where it does not re-enter, or {@link LeaseLostError} if that lease was lost. A rejected
 * acquire leaves no znode behind.
 *
 * @publicApi
 */
export abstract class Lock<Options extends AcquireOptions = AcquireOptions> {
  /** The name of the lock in errors and leases. */
  readonly key: string;
  protected readonly reentrant: boolean;
  /**
   * The word for it in errors.
   *
   * @internal
   */
  readonly noun: 'lock' | 'semaphore' = 'lock';

  constructor(
    readonly client: ZkClient,
    readonly path: string,
    readonly recipe: LockKind,
    options: LockConstructorOptions = {},
  ) {
    checkBelowRoot(path);
    const { key = path, reentrant = true } = checkOptions(options, CONSTRUCTOR_RULES);
    this.key = key;
    this.reentrant = reentrant;
  }

  /**
   * Runs `fn` as the holder of the lock, and releases it when `fn` has settled. `fn` may start before this method
   * returns, if the lock lingers in this process, is shared with other readers, or is held by the call chain already.
   */
  async withLock<T>(
    fn: (lease: Lease) => T | Promise<T>,
    options: Options = {} as Options,
  ): Promise<T> {
    checkFunction(fn, 'fn');
    checkAcquire(options, this.acquireRules);
    let grant = this.enterGrant(options);
    // An `await` of a grant that is there costs more than a handover.
    if (grant instanceof Promise) grant = await grant;
    const lease = grant.lease(this.key, options);
    try {
      return await runHolding(lease, [lease], () => fn(lease));
    } finally {
      const released = lease.release();
      if (released !== RESOLVED) await released;
    }
  }

  /** Acquires the lock, or re-enters it, for a holder that is not a callback. */
  async enter(options: Options = {} as Options): Promise<Entry> {
    checkAcquire(options, this.acquireRules);
    return this.enterChecked(options);
  }

  /**
   * As {@link enter}, with options that were checked. Returns the entry itself if the caller need not wait at all.
   *
   * @internal
   */
  enterChecked(options: Options): Promise<Entry> | Entry {
    const entryOf = (granted: Grant): Entry => {
      const lease = granted.lease(this.key, options);
      return {
        lease,
        run: (fn) => runHolding(lease, [lease], fn),
        release: () => lease.release(),
      };
    };
    const grant = this.enterGrant(options);
    return grant instanceof Promise ? grant.then(entryOf) : entryOf(grant);
  }

  /**
   * Acquires the lock until the lease is released, in any call chain. It never re-enters.
   *
   * @throws SelfDeadlockError if the call chain holds the lock already
   */
  async acquire(options: Options = {} as Options): Promise<Lease> {
    checkAcquire(options, this.acquireRules);
    return this.acquireChecked(options);
  }

  /**
   * As {@link acquire}, with options that were checked.
   *
   * @internal
   */
  async acquireChecked(options: Options): Promise<Lease> {
    const advice = this.reentrant ? 'release it first, or use withLock()' : undefined;
    if (this.heldByChain()) throw this.selfDeadlock('and acquire() never re-enters', advice);
    return (await this.acquireGrant(options)).lease(this.key, options);
  }

  /** As {@link acquire}, but resolves to undefined if the lock is not granted within `wait`, by default 0. */
  async tryAcquire(options: Options = {} as Options): Promise<Lease | undefined> {
    checkAcquire(options, this.acquireRules);
    try {
      return await this.acquireChecked({ ...options, wait: options.wait ?? 0 });
    } catch (error) {
      if (error instanceof LockBusyError || error instanceof LockTimeoutError) return undefined;
      throw error;
    }
  }

  /** Reads the holders of the lock and the waiters, in their order. */
  async participants(): Promise<Participant[]> {
    return readParticipants(this.client, await this.entries());
  }

  /** Asks the holders to release the lock; see {@link Lease.revocation}. */
  async revoke(): Promise<void> {
    // The server may lag behind the one that granted the lock, and its listing would miss the present holders.
    await this.client.sync(this.path);
    const entries = await this.entries();
    const holding = entries.filter(({ state }) => state === 'holding');
    await Promise.all(
      holding.map(({ parent, node }) => revoke(this.client, { path: `${parent}/${node.name}` })),
    );
  }

  protected abstract entries(): Promise<QueueEntry[]>;

  /** The names of the options of an acquire. */
  protected get acquireRules(): Rules<AcquireOptions> {
    return ACQUIRE_RULES;
  }

  /**
   * Returns the grant that the call chain may enter again.
   *
   * @throws LeaseLostError if it was lost; SelfDeadlockError if the chain would wait for itself
   */
  protected abstract heldByChain(): Grant | undefined;

  /** Acquires a grant. Returns the grant itself if the caller need not wait at all. */
  protected abstract take(options: Options): Promise<Grant> | Grant;

  protected selfDeadlock(why: string, advice = 'release it first'): SelfDeadlockError {
    const held = `lock ${JSON.stringify(this.key)} is held by this call chain`;
    return new SelfDeadlockError(`${held} ${why}: ${advice}`, { key: this.key });
  }

  /** Enters the grant of the call chain again, or acquires one. */
  private enterGrant(options: Options): Promise<Grant> | Grant {
    const outer = this.heldByChain();
    if (!outer) return this.acquireGrant(options);
    if (!this.reentrant) throw this.selfDeadlock('and reentrant is false');
    publishReentry(this);
    return outer;
  }

  private acquireGrant(options: Options): Promise<Grant> | Grant {
    return publishWait(this, () =>
      this.client.connected ? this.take(options) : this.takeConnected(options),
    );
  }

  /** Waits for the connection first, for each caller alone. */
  private async takeConnected(options: Options): Promise<Grant> {
    return this.take(
      await connectWithin(this, options, (signal) => this.client.session({ signal })),
    );
  }
}
