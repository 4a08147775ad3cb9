import { BadOptionError } from '../client/errors.js';
import type { ZkClient } from '../client/index.js';
import { grantInChain } from '../recipes/internals/call-chain.js';
import {
  type AcquireOptions,
  type Entry,
  ForeignNodeError,
  type Lease,
  type Lock,
  type MultiLease,
  MultiLock,
  Mutex,
  type Participant,
  ReadLock,
  WriteLock,
} from '../recipes/index.js';
import { checkKnownOptions, type LeaseDefaults } from './service-options.js';
import { LeaseService, unlessTaken } from './lease-service.js';
import { checkKey, checkKeys, type LockKeys, lockPath } from './keys.js';
import { checkLockOptions, checkMode, type LockMode, type LockOptions } from './service-options.js';
import { Turnstile } from './lease-tracker.js';

/**
 * The lease on one key; on a list of keys all of their leases as one.
 *
 * @publicApi
 */
export type LeaseOf<K extends LockKeys> = K extends string ? Lease : MultiLease;

/**
 * Which lock of a key is meant, where nobody acquires it.
 *
 * @publicApi
 */
export type LockQuery = Pick<LockOptions, 'mode' | 'path'>;

const QUERY_OPTIONS = ['mode', 'path'] satisfies (keyof LockQuery)[];

/**
 * Locks by key, for all processes on the same ensemble and namespace: exclusive ones, and for readers
 * and writers. A key is used in the one way or in the other; see {@link LockMode}.
 *
 * A list of keys is taken as one, all or none, under one deadline, in an order that is the same for
 * everybody. Locks taken by nesting calls are outside of that order: give them a finite `wait`.
 *
 * Every way to take a lock may reject with {@link LockBusyError} (`wait: 0`),
 * {@link LockTimeoutError}, {@link WaitCancelledError}, {@link ConnectionError},
 * {@link NotAuthorizedError}, {@link ForeignNodeError}, {@link SequenceExhaustedError},
 * {@link SelfDeadlockError}, {@link DeadlockError} (`onDeadlock: 'refuse'`), {@link ShuttingDownError} or
 * {@link BadOptionError}, and then has taken nothing.
 *
 * @publicApi
 */
export class LockService extends LeaseService {
  protected override readonly noun = 'lock';

  constructor(client: ZkClient, defaults: LeaseDefaults = {}, turnstile = new Turnstile()) {
    super(client, defaults, turnstile);
  }

  /**
   * Runs `fn` while holding the lock, and gives it back when `fn` has settled. Inside of itself, for
   * the same key, it re-enters without asking the ensemble.
   *
   * Resolves with what `fn` returned though the lease was lost meanwhile: `lease.signal.throwIfAborted()` as
   * the last line of `fn` rejects then, as the decorators do. An Observable or a generator as the result is
   * refused with a {@link BadOptionError}: it would begin without the lock.
   */
  withLock<T, K extends LockKeys = LockKeys>(
    key: K,
    fn: (lease: LeaseOf<K>) => T | Promise<T>,
  ): Promise<T>;
  withLock<T, K extends LockKeys = LockKeys>(
    key: K,
    options: LockOptions,
    fn: (lease: LeaseOf<K>) => T | Promise<T>,
  ): Promise<T>;
  async withLock<T, K extends LockKeys>(
    key: K,
    ...rest:
      [(lease: LeaseOf<K>) => T | Promise<T>] | [LockOptions, (lease: LeaseOf<K>) => T | Promise<T>]
  ): Promise<T> {
    const [options, fn] = rest.length === 1 ? [{}, rest[0]] : rest;
    if (typeof fn !== 'function') throw new BadOptionError('fn', fn, 'a function');
    return this.holding(this.enter(key, options), fn);
  }

  /**
   * Takes the lock for whoever releases the lease, in any call chain:
   * `await using lease = await locks.acquire('stock')`. It never re-enters, and rejects with a
   * {@link SelfDeadlockError} where its own call chain holds the key.
   */
  async acquire<K extends LockKeys>(key: K, options: LockOptions = {}): Promise<LeaseOf<K>> {
    const { asked, lock } = this.ask(key, options);
    const take = (how: AcquireOptions): Promise<Lease> => lock.acquire(how);
    return this.takeLease(asked, explained(take) as (how: AcquireOptions) => Promise<LeaseOf<K>>);
  }

  /** As {@link acquire}, but undefined where others hold the lock for all of `wait`, by default 0. */
  async tryAcquire<K extends LockKeys>(
    key: K,
    options: LockOptions = {},
  ): Promise<LeaseOf<K> | undefined> {
    checkLockOptions(options, key);
    return unlessTaken(this.acquire(key, { ...options, wait: options.wait ?? 0 }));
  }

  /**
   * Takes the lock, or re-enters it, for a holder that is not a callback, such as a stream: what runs
   * in the entry's `run` counts as the holder until its `release`.
   */
  async enter<K extends LockKeys>(
    key: K,
    options: LockOptions = {},
  ): Promise<Entry & { readonly lease: LeaseOf<K> }> {
    const { asked, lock } = this.ask(key, options);
    const enter = (how: AcquireOptions): Promise<Entry> => lock.enter(how);
    return this.takeEntry(
      asked,
      explained(enter) as (how: AcquireOptions) => Promise<Entry & { lease: LeaseOf<K> }>,
    );
  }

  /** Whether a lease of the key that this service gave out is held now, by anybody in this process. */
  held(key: string, query: Pick<LockOptions, 'path'> = {}): boolean {
    checkKey(key);
    checkKnownOptions('options', query, ['path']);
    return this.turnstile.leases.has(this.pathOf(key, query.path));
  }

  /** Who holds the lock and who waits for it, in their order, over all processes. */
  participants(key: string, query: LockQuery = {}): Promise<Participant[]> {
    return this.query(key, query, (lock) => lock.participants());
  }

  /**
   * Asks whoever holds the lock, or one participant, to give it back: its `onRevoke` is called, and
   * the {@link Lease.revocation} of its lease aborts. Nothing forces it.
   */
  revoke(key: string, query?: LockQuery): Promise<void>;
  revoke(participant: Participant): Promise<void>;
  async revoke(asked: string | Participant, query: LockQuery = {}): Promise<void> {
    if (isParticipant(asked)) return this.revokeOne(asked);
    return this.query(asked, query, (lock) => lock.revoke());
  }

  private async query<T>(
    key: string,
    query: LockQuery,
    fn: (lock: Lock) => Promise<T>,
  ): Promise<T> {
    checkKey(key);
    checkKnownOptions('options', query, QUERY_OPTIONS);
    checkMode(query.mode);
    const lock = this.lock(key, query);
    return this.look(() => explained(fn)(lock));
  }

  private ask(keys: LockKeys, options: LockOptions) {
    checkKeys(keys);
    checkLockOptions(options, keys);
    const locks = [keys].flat().map((key) => this.lock(key, options));
    const asked = {
      key: [keys].flat().join(', '),
      reenters: locks.every(({ path }) => this.holds(path)),
      locks,
      options,
    };
    return { asked, lock: typeof keys === 'string' ? locks[0]! : new MultiLock(locks) };
  }

  private lock(key: string, { mode = 'exclusive', path, reentrant }: LockOptions): Lock {
    return new LOCKS[mode](this.client, this.pathOf(key, path), { key, reentrant });
  }

  private pathOf(key: string, path: string | undefined): string {
    return path ?? lockPath(this.client.namespace, key);
  }

  /** In the caller's chain. */
  private holds(path: string): boolean {
    return grantInChain(this.client, path, 'mutex', 'read', 'write')?.held ?? false;
  }
}

const LOCKS = { exclusive: Mutex, read: ReadLock, write: WriteLock } satisfies Record<
  LockMode,
  unknown
>;

/** A key that is used in two ways looks to the recipe like another's path. */
function explained<A, T>(take: (how: A) => Promise<T>): (how: A) => Promise<T> {
  return async (how) => {
    try {
      return await take(how);
    } catch (error) {
      if (!(error instanceof ForeignNodeError)) throw error;
      throw new ForeignNodeError(
        `${error.message}. A key is locked either exclusively or with mode 'read' and 'write', by everybody alike`,
        { key: error.key, cause: error },
      );
    }
  };
}

function isParticipant(asked: unknown): asked is Participant {
  return (
    typeof asked === 'object' &&
    asked !== null &&
    typeof (asked as { path?: unknown }).path === 'string'
  );
}
