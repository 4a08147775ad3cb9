import { BadOptionError, CoordinationError } from '../client/errors.js';
import type { ZkClient } from '../client/index.js';
import { type AcquireOptions, type Entry, type Lease, Mutex } from '../recipes/index.js';
import { checkKey, lockPath } from './lock-key.js';
import { abortable, cancelled } from '../recipes/wait.js';
import {
  checkLockOptions,
  checkWait,
  type LockDefaults,
  type LockOptions,
} from './lock-options.js';
import { TrackedLease } from './tracked-lease.js';
import { Turnstile } from './turnstile.js';

/**
 * Exclusive locks by key, for all processes on the same ensemble and namespace.
 *
 * Every way to take a lock may reject with {@link LockBusyError} (`wait: 0`),
 * {@link LockTimeoutError}, {@link WaitCancelledError}, {@link ConnectionError},
 * {@link ShuttingDownError} or {@link BadOptionError}, and then has taken nothing.
 *
 * @publicApi
 */
export class LockService {
  /** Milliseconds that a wait takes where the call does not say. */
  readonly defaultWait: number;

  constructor(
    private readonly client: ZkClient,
    { wait = Infinity }: LockDefaults = {},
    private readonly turnstile = new Turnstile(),
  ) {
    checkWait('defaults.wait', wait);
    this.defaultWait = wait;
    client.onState(() => this.turnstile.leases.sweep());
  }

  /**
   * Runs `fn` while holding the lock, and gives it back when `fn` has settled. Inside of itself, for
   * the same key, it re-enters without asking the ensemble.
   */
  withLock<T>(key: string, fn: (lease: Lease) => T | Promise<T>): Promise<T>;
  withLock<T>(key: string, options: LockOptions, fn: (lease: Lease) => T | Promise<T>): Promise<T>;
  async withLock<T>(
    key: string,
    ...rest: [(lease: Lease) => T | Promise<T>] | [LockOptions, (lease: Lease) => T | Promise<T>]
  ): Promise<T> {
    const [options, fn] = rest.length === 1 ? [{}, rest[0]] : rest;
    if (typeof fn !== 'function') throw new BadOptionError('fn', fn, 'a function');
    const entry = await this.enter(key, options);
    try {
      return await entry.run(() => fn(entry.lease));
    } finally {
      await entry.release();
    }
  }

  /**
   * Takes the lock for whoever releases the lease, in any call chain:
   * `await using lease = await locks.acquire('stock')`. It never re-enters, and rejects with a
   * {@link SelfDeadlockError} where its own call chain holds the key.
   */
  async acquire(key: string, options: LockOptions = {}): Promise<Lease> {
    return this.track(await this.take(key, options, (mutex, how) => mutex.acquire(how)));
  }

  /** As {@link acquire}, but undefined where others hold the lock for all of `wait`, by default 0. */
  async tryAcquire(key: string, options: LockOptions = {}): Promise<Lease | undefined> {
    checkLockOptions(options);
    const lease = await this.take(key, { ...options, wait: options.wait ?? 0 }, (mutex, how) =>
      mutex.tryAcquire(how),
    );
    return lease && this.track(lease);
  }

  /**
   * Takes the lock, or re-enters it, for a holder that is not a callback, such as a stream: what runs
   * in the entry's `run` counts as the holder until its `release`.
   */
  async enter(key: string, options: LockOptions = {}): Promise<Entry> {
    const entry = await this.take(key, options, (mutex, how) => mutex.enter(how));
    this.turnstile.leases.add(entry.lease);
    return {
      lease: entry.lease,
      run: (fn) => entry.run(fn),
      release: async () => {
        await entry.release();
        this.turnstile.leases.delete(entry.lease);
      },
    };
  }

  /** Whether a lease of the key that this service gave out is held now, by anybody in this process. */
  held(key: string, { path }: Pick<LockOptions, 'path'> = {}): boolean {
    checkKey(key);
    return this.turnstile.leases.has(path ?? lockPath(this.client.namespace, key));
  }

  private async take<T>(
    key: string,
    options: LockOptions,
    how: (mutex: Mutex, options: AcquireOptions) => Promise<T>,
  ): Promise<T> {
    checkKey(key);
    checkLockOptions(options);
    const { wait = this.defaultWait, signal, reentrant } = options;
    const path = options.path ?? lockPath(this.client.namespace, key);
    const mutex = new Mutex(this.client, path, { key, reentrant });
    return this.turnstile.pass({ key, path, signal }, async (cancel) => {
      await this.connected(key, cancel);
      return how(mutex, { wait, signal: cancel });
    });
  }

  /** Makes the first connection where the application started without one. */
  private async connected(key: string, signal: AbortSignal): Promise<void> {
    if (this.client.state !== 'CONNECTING') return;
    try {
      await abortable(this.client.connect(), signal);
    } catch (error) {
      throw signal.aborted ? cancelled(key, signal) : error;
    }
  }

  private track(lease: Lease): Lease {
    const tracked = new TrackedLease(lease, () => this.turnstile.leases.delete(tracked));
    this.turnstile.leases.add(tracked);
    return tracked;
  }
}

/** Whether an error says that others held the lock for all of the wait. */
export function isContention(error: unknown): error is CoordinationError {
  return error instanceof CoordinationError && (error.code === 'BUSY' || error.code === 'TIMEOUT');
}
