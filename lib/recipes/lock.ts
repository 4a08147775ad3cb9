import { BadOptionError } from '../client/errors.js';
import type { ZkClient } from '../client/index.js';
import { checkBelowRoot, checkFunction, checkOptions } from '../client/validation.js';
import { telling, tellReentry } from './diagnostics/publish.js';
import { AT_ONCE } from './internals/fencing-token.js';
import { runHolding } from './internals/call-chain.js';
import { LockBusyError, LockTimeoutError, SelfDeadlockError } from './errors.js';
import type { Grant, Recipe } from './internals/grant.js';
import type { AcquireOptions, Lease } from './lease.js';
import { type Participant, readParticipants, type Seat } from './participants.js';
import { revoke } from './participants.js';
import { checkAcquire } from './internals/wait.js';

/**
 * What every lock takes beside its path.
 *
 * @publicApi
 */
export interface LockOptions {
  /** What errors, leases and `currentLease` call the lock. Default: the path. */
  key?: string;
  /** False makes `withLock` and `enter` fail where the call chain holds the lock. Default true. */
  reentrant?: boolean;
}

const LOCK_OPTIONS = ['key', 'reentrant'] satisfies (keyof LockOptions)[];

/**
 * One entry into a lock by a holder that is not a callback, such as a stream: whatever runs in `run`
 * counts as the holder until `release`.
 *
 * @publicApi
 */
export interface Entry {
  readonly lease: Lease;
  /**
   * Runs `fn` as the holder. It may be called any number of times. After `release`, `fn` still runs, but this
   * entry gives it no right: it holds only what the call chain of the caller of `run` holds.
   */
  run<T>(fn: () => T): T;
  /** As {@link Lease.release}. */
  release(): Promise<void>;
}

/**
 * What all locks have in common: the ways to take them. Making one costs nothing and holds nothing:
 * make it where it is used.
 *
 * Every acquire may reject with {@link LockBusyError}, {@link LockTimeoutError},
 * {@link WaitCancelledError}, {@link ConnectionError}, {@link NotAuthorizedError},
 * {@link ForeignNodeError}, {@link SequenceExhaustedError}, {@link ShuttingDownError} or
 * {@link BadOptionError}, and then has left no znode behind.
 *
 * @publicApi
 */
export abstract class Lock<Options extends AcquireOptions = AcquireOptions> {
  readonly key: string;
  /** What errors call it. */
  readonly noun: 'lock' | 'semaphore' = 'lock';
  /** Whose rights exclude or share each other at the path. */
  abstract readonly recipe: Recipe;
  protected readonly reentrant: boolean;

  constructor(
    readonly client: ZkClient,
    readonly path: string,
    options: LockOptions = {},
  ) {
    checkBelowRoot(path);
    const { key = path, reentrant = true } = checkOptions(options, LOCK_OPTIONS);
    if (typeof key !== 'string') throw new BadOptionError('key', key, 'a string');
    if (typeof reentrant !== 'boolean') {
      throw new BadOptionError('reentrant', reentrant, 'true or false');
    }
    this.key = key;
    this.reentrant = reentrant;
  }

  /**
   * Runs `fn` as the holder of the lock and releases it when `fn` has settled. `fn` may have begun when this
   * returns: where the lock lingers here, readers share it, or the call chain holds it already.
   */
  async withLock<T>(
    fn: (lease: Lease) => T | Promise<T>,
    options: Options = {} as Options,
  ): Promise<T> {
    checkFunction(fn, 'fn');
    let grant = this.reentered(options) ?? this.granted(options);
    // To await what is there costs more than to grant it.
    if (grant instanceof Promise) grant = await grant;
    const lease = grant.lease(this.key, options);
    try {
      return await runHolding(lease, [{ grant, lease }], () => fn(lease));
    } finally {
      const released = lease.release();
      if (released !== AT_ONCE) await released;
    }
  }

  /** Takes the lock, or re-enters it, for a holder that is not a callback. */
  async enter(options: Options = {} as Options): Promise<Entry> {
    const grant = this.reentered(options) ?? (await this.granted(options));
    const lease = grant.lease(this.key, options);
    return {
      lease,
      run: (fn) => runHolding(lease, [{ grant, lease }], fn),
      release: () => lease.release(),
    };
  }

  /**
   * Takes the lock for whoever releases the lease, in any call chain. It cannot tell its caller's
   * chain about it, so it never re-enters: {@link SelfDeadlockError} where the chain holds the lock.
   */
  async acquire(options: Options = {} as Options): Promise<Lease> {
    checkAcquire(options);
    if (this.heldByChain()) throw this.selfDeadlock('by acquire(), which never re-enters');
    return (await this.granted(options)).lease(this.key, options);
  }

  /** As {@link acquire}, but undefined where others hold the lock for all of `wait`, by default 0. */
  async tryAcquire(options: Options = {} as Options): Promise<Lease | undefined> {
    checkAcquire(options);
    try {
      return await this.acquire({ ...options, wait: options.wait ?? 0 });
    } catch (error) {
      if (error instanceof LockBusyError || error instanceof LockTimeoutError) return undefined;
      throw error;
    }
  }

  /** Who holds the lock and who waits for it, in their order. */
  async participants(): Promise<Participant[]> {
    return readParticipants(this.client, await this.seats());
  }

  /** Asks whoever holds the lock to give it back; see {@link Lease.revocation}. */
  async revoke(): Promise<void> {
    const seats = await this.seats();
    const holding = seats.filter(({ state }) => state === 'holding');
    await Promise.all(
      holding.map(({ parent, node }) => revoke(this.client, { path: `${parent}/${node.name}` })),
    );
  }

  protected abstract seats(): Promise<Seat[]>;

  /** The grant that the call chain holds and may enter again. Throws where entering again cannot be right. */
  protected abstract heldByChain(): Grant | undefined;

  /** A grant of its own; at once where nobody has to be asked or waited for. */
  protected abstract take(options: Options): Promise<Grant> | Grant;

  protected selfDeadlock(how: string): SelfDeadlockError {
    return new SelfDeadlockError(
      `lock ${JSON.stringify(this.key)} is held by the call chain that asks for it again, ${how}; use withLock, or release it first`,
      { key: this.key },
    );
  }

  /** The grant that the call chain enters again, if it holds one. */
  private reentered(options: Options): Grant | undefined {
    checkAcquire(options);
    const outer = this.heldByChain();
    if (outer && !this.reentrant) throw this.selfDeadlock('with reentrant: false');
    if (outer) tellReentry(this);
    return outer;
  }

  private granted(options: Options): Promise<Grant> | Grant {
    return telling(this, () =>
      this.client.connected ? this.take(options) : this.takeConnected(options),
    );
  }

  /** Trouble with the connection is bounded by the retry policy, and by that of each caller alone. */
  private async takeConnected(options: Options): Promise<Grant> {
    await this.client.session({ signal: options.signal });
    return this.take(options);
  }
}
