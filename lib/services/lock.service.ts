import { BadOptionError } from '../client/errors.js';
import {
  BELOW_ROOT,
  BOOLEAN,
  checkFunction,
  checkOptions,
  oneOf,
  type Rules,
} from '../client/validation.js';
import { grantInChain } from '../kernel/call-chain.js';
import {
  type Entry,
  type Lease,
  type Lock,
  type MultiLease,
  MultiLock,
  Mutex,
  type Participant,
  ReadLock,
  WriteLock,
} from '../recipes/index.js';
import { checkKey, checkKeys, type LockKeys, lockPath } from './keys.js';
import {
  checkLeaseOptions,
  LEASE_RULES,
  type LeaseOptions,
  type LeaseRequest,
  LeaseService,
  type OptionNaming,
} from './lease-service.js';

/**
 * What a lock excludes: `'exclusive'` all other holders, `'write'` all readers and writers, `'read'`
 * writers only. All users of a key use it either exclusively or with `'read'` and `'write'`: Curator has
 * different locks for the two. Where they meet on one key, the later one gets a {@link RecipeConflictError}.
 *
 * @publicApi
 */
export type LockMode = 'exclusive' | 'read' | 'write';

/**
 * Options of the methods of {@link LockService} that acquire.
 *
 * @publicApi
 */
export interface LockOptions extends LeaseOptions {
  /**
   * What the lock excludes. The holder of the `'write'` lock may also acquire the `'read'` lock of the same key. A reader
   * that asks for `'write'` is rejected, because it would wait for itself. Default `'exclusive'`.
   */
  mode?: LockMode | undefined;
  /** False rejects an acquire of a lock that the call chain already holds. Default true. */
  reentrant?: boolean | undefined;
}

/**
 * Selects the lock of a key for a call that does not acquire it.
 *
 * @publicApi
 */
export type LockQuery = Pick<LockOptions, 'mode' | 'path'>;

/**
 * The lease of one key; for a list of keys one lease of all their locks.
 *
 * @publicApi
 */
export type LeaseOf<K extends LockKeys> = K extends string ? Lease : MultiLease;

const LOCKS = { exclusive: Mutex, read: ReadLock, write: WriteLock } satisfies Record<
  LockMode,
  unknown
>;
const QUERY_RULES: Rules<LockQuery> = {
  mode: oneOf(...Object.keys(LOCKS)),
  path: BELOW_ROOT,
};
export const LOCK_RULES: Rules<LockOptions> = {
  ...LEASE_RULES,
  ...QUERY_RULES,
  reentrant: BOOLEAN,
};

export function checkLockOptions(
  options: unknown,
  keys: unknown,
  named?: OptionNaming,
): asserts options is LockOptions {
  checkLeaseOptions(options as LockOptions, LOCK_RULES, named);
  const { path } = options as LockOptions;
  if (path !== undefined && Array.isArray(keys)) {
    throw new BadOptionError(named?.('path') ?? 'path', path, 'left out with a list of keys');
  }
}

/**
 * Locks by key, across all processes on the same ensemble and namespace: exclusive locks and read/write
 * locks; see `LockMode`.
 *
 * The locks of a list of keys are acquired together, all or none, under one deadline and in an order that is the same
 * for all callers, so that two lists cannot deadlock. Nested calls do not follow that order: give them a finite `wait`.
 *
 * Each method that acquires may reject as those of a {@link Lock} do. It then holds nothing.
 *
 * @publicApi
 */
export class LockService extends LeaseService {
  /**
   * Runs `fn` while holding the lock, and releases the lock when the result of `fn` has settled. A call
   * inside `fn` for the same key re-enters the lock without a request to the ensemble.
   *
   * If the lease is lost while `fn` runs, the promise still resolves to the result of `fn`. To reject
   * instead, as the decorators do, end `fn` with `lease.signal.throwIfAborted()`. An Observable or a
   * generator as result rejects with a {@link BadOptionError}, because it would run after the release.
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
    checkFunction(fn, 'fn');
    return this.runHolding(this.request(key, options), fn);
  }

  /**
   * Acquires the lock; any call chain may release the lease: `await using lease = await locks.acquire('stock')`. Never
   * re-enters: rejects with a {@link SelfDeadlockError} if the caller's own call chain holds the key.
   */
  async acquire<K extends LockKeys>(key: K, options: LockOptions = {}): Promise<LeaseOf<K>> {
    return this.acquireLease(this.request(key, options));
  }

  /** As {@link acquire}, but resolves to undefined if others hold the lock for all of `wait`, by default 0. */
  async tryAcquire<K extends LockKeys>(
    key: K,
    options: LockOptions = {},
  ): Promise<LeaseOf<K> | undefined> {
    return this.tryAcquireLease(this.request(key, options));
  }

  /**
   * Acquires or re-enters the lock for a holder that is not a callback, such as a stream. Code that runs
   * in the entry's `run` counts as the holder until the entry's `release`.
   */
  async enter<K extends LockKeys>(
    key: K,
    options: LockOptions = {},
  ): Promise<Entry & { readonly lease: LeaseOf<K> }> {
    return this.enterBy(this.request(key, options));
  }

  /** Returns whether a caller in this process holds a lease of the key from this service. */
  held(key: string, query: Pick<LockOptions, 'path'> = {}): boolean {
    checkKey(key);
    checkOptions(query, { path: BELOW_ROOT });
    return this.tracker.holds(query.path ?? lockPath(this.client.namespace, key));
  }

  /** Resolves to the holders and waiters of all processes, in the order of their queue. */
  participants(key: string, query: LockQuery = {}): Promise<Participant[]> {
    return this.query(key, query, (lock) => lock.participants());
  }

  /**
   * Asks the holders of a lock, or one participant, for a release: calls their `onRevoke` and aborts the
   * {@link Lease.revocation} of their leases. Does not force the release.
   */
  revoke(key: string, query?: LockQuery): Promise<void>;
  revoke(participant: Participant): Promise<void>;
  async revoke(keyOrParticipant: string | Participant, query: LockQuery = {}): Promise<void> {
    return isParticipant(keyOrParticipant)
      ? this.revokeParticipant(keyOrParticipant)
      : this.query(keyOrParticipant, query, (lock) => lock.revoke());
  }

  private async query<T>(
    key: string,
    query: LockQuery,
    fn: (lock: Lock) => Promise<T>,
  ): Promise<T> {
    checkKey(key);
    checkOptions(query, QUERY_RULES);
    const lock = this.lockOf(key, query);
    return this.readBy(() => fn(lock));
  }

  private request<K extends LockKeys>(key: K, options: LockOptions): LeaseRequest<LeaseOf<K>> {
    checkKeys(key);
    checkLockOptions(options, key);
    const { path, mode, reentrant, onRevoke, ...acquireOptions } = options;
    const locks = [key].flat().map((one) => this.lockOf(one as string, { path, mode, reentrant }));
    const target = typeof key === 'string' ? locks[0]! : new MultiLock(locks);
    return {
      key: [key].flat().join(', '),
      noun: 'lock',
      locks,
      isReentry: () =>
        locks.every((lock) => grantInChain(this.client, lock.path, 'mutex', 'read', 'write')?.held),
      // The type of the lease follows from the type of the key.
      target: target as object as LeaseRequest<LeaseOf<K>>['target'],
      options: acquireOptions,
      onRevoke,
    };
  }

  protected lockOf(key: string, { mode = 'exclusive', path, reentrant }: LockOptions): Lock {
    const exactPath = path ?? lockPath(this.client.namespace, key);
    return new LOCKS[mode](this.client, exactPath, { key, reentrant });
  }
}

function isParticipant(value: unknown): value is Participant {
  return (
    typeof value === 'object' &&
    value !== null &&
    typeof (value as { path?: unknown }).path === 'string'
  );
}
