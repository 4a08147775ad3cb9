import { BadOptionError } from '../client/errors.js';
import type { TransactionOperation, TransactionResults } from '../client/index.js';
import { checkFunction } from '../client/validation.js';
import { IllegalStateError, type LeaseLostError, LockTimeoutError } from '../kernel/errors.js';
import { runHolding } from '../kernel/call-chain.js';
import { GrantLease, grantOf, transactionOfLease } from '../kernel/grant.js';

import { timedOut, waitUntil } from '../kernel/waiter.js';
import { type AcquireOptions, checkAcquire, type Lease, LeaseBase } from '../kernel/lease.js';
import type { Entry, Lock } from './lock.js';

/*
 * Multi-lock (Curator's InterProcessMultiLock): several locks, all or none, under one deadline. They are acquired one
 * after the other in the order of the bytes of their paths. All callers have the same order, so two callers that want
 * the same locks never wait for each other. The locks are released in the opposite order.
 */

/**
 * The leases of a multi-lock as one: held while all are, lost with the first that is lost.
 *
 * @publicApi
 */
export interface MultiLease extends Lease {
  /** One for each lock, in the order of the locks. */
  readonly leases: readonly Lease[];
}

/**
 * Several locks as one, all or none. Locks that a caller acquires inside of another lock are outside of the common
 * order: give them a finite `wait`.
 *
 * @publicApi
 */
export class MultiLock {
  private readonly inOrder: readonly Lock[];

  /** @throws BadOptionError unless there is at least one lock, and all are on different paths */
  constructor(private readonly locks: readonly Lock[]) {
    if (!Array.isArray(locks) || locks.length === 0) {
      throw new BadOptionError('locks', locks, 'a list of at least one lock');
    }
    const paths = new Set<string>();
    for (const [index, lock] of locks.entries()) {
      if (typeof (lock as Lock | null | undefined)?.acquire !== 'function') {
        const expected = 'a Mutex, ReadLock, WriteLock, Semaphore or NonReentrantMutex';
        throw new BadOptionError(`locks[${index}]`, lock, expected);
      }
      const { path } = lock;
      if (paths.has(path)) {
        throw new BadOptionError('locks', path, { message: `two of the locks are on ${path}` });
      }
      paths.add(path);
    }
    this.inOrder = [...locks].sort((a, b) =>
      Buffer.compare(Buffer.from(a.path), Buffer.from(b.path)),
    );
  }

  /** Runs `fn` as the holder of all locks, and releases them when it has settled. */
  async withLock<T>(
    fn: (lease: MultiLease) => T | Promise<T>,
    options?: AcquireOptions,
  ): Promise<T> {
    checkFunction(fn, 'fn');
    const entry = await this.enter(options);
    try {
      return await entry.run(() => fn(entry.lease));
    } finally {
      await entry.release();
    }
  }

  /** As {@link Lock.enter}. Locks that the call chain holds already are entered again. */
  async enter(options: AcquireOptions = {}): Promise<MultiEntry> {
    checkAcquire(options);
    return this.enterChecked(options);
  }

  /**
   * As {@link enter}, with options that were checked.
   *
   * @internal
   */
  async enterChecked(options: AcquireOptions): Promise<MultiEntry> {
    const lease = await this.takeAll(options, async (lock, rest) => (await lock.enter(rest)).lease);
    const held = grantLeases(lease.leases);
    return {
      lease,
      run: (fn) => runHolding(lease, held, fn),
      release: () => lease.release(),
    };
  }

  /** As {@link Lock.acquire}, with one deadline for all locks. If it rejects, it holds none of them. */
  async acquire(options: AcquireOptions = {}): Promise<MultiLease> {
    checkAcquire(options);
    return this.acquireChecked(options);
  }

  /**
   * As {@link acquire}, with options that were checked.
   *
   * @internal
   */
  acquireChecked(options: AcquireOptions): Promise<MultiLease> {
    return this.takeAll(options, (lock, rest) => lock.acquire(rest));
  }

  private async takeAll(
    all: AcquireOptions,
    take: (lock: Lock, options: AcquireOptions) => Promise<Lease>,
  ): Promise<MultiLease> {
    // None of the locks lingers, see endAfterGrants() below. Without `linger`, a try elsewhere is refused at once.
    const { holdAtLeast, holdAtMost, linger: _, ...options } = all;
    const deadline = performance.now() + (options.wait ?? Infinity);
    for (;;) {
      const taken = await this.takeEach(options, deadline, take);
      const leases = [...taken.values()];
      // The session of the first lease may have ended during the wait for the last. Another process may have held that
      // lock since, with a token below the highest of these, so the highest token would not fence it.
      if (leases.every((lease) => lease.held)) {
        for (const lease of leases) {
          // Only now: a lock that is released because the others were not granted must not be kept, and the wait for
          // the others is not part of the hold.
          if (lease instanceof GrantLease && lease.first) {
            lease.grant.limit({ holdAtLeast, holdAtMost });
          }
          // The next holder of each lock needs a token above the highest of these, which a handover would not give.
          grantOf(lease)?.ownership.endAfterGrants();
        }
        return new CombinedLease(
          this.locks.map((lock) => taken.get(lock)!),
          leases,
        );
      }
      await releaseAll(leases);
    }
  }

  private async takeEach(
    options: AcquireOptions,
    deadline: number,
    take: (lock: Lock, options: AcquireOptions) => Promise<Lease>,
  ): Promise<Map<Lock, Lease>> {
    const taken = new Map<Lock, Lease>();
    try {
      for (const lock of this.inOrder) {
        const wait = options.wait && waitUntil(deadline);
        const [outer] = taken.values();
        const ask = () => take(lock, { ...options, wait });
        // It waits as the holder of the earlier locks, because a deadlock may include them.
        const asking = outer ? runHolding(outer, grantLeases([...taken.values()]), ask) : ask();
        const taking = asking.catch((error: unknown) => {
          // The waits for the earlier locks have used a part of `wait`, or all of it.
          if (error instanceof LockTimeoutError) throw timedOut(lock, options.wait!);
          throw error;
        });
        taken.set(lock, await taking);
      }
      return taken;
    } catch (error) {
      // The caller gets the reason of the failure. What else fails becomes a process warning.
      const released = releaseAll([...taken.values()], error).catch((failures: AggregateError) =>
        process.emitWarning(failures),
      );
      // A server that does not reply must not delay the caller beyond the deadline.
      if (options.wait === 0 || performance.now() < deadline) await released;
      throw error;
    }
  }
}

type MultiEntry = Entry & { readonly lease: MultiLease };

function grantLeases(leases: readonly Lease[]): GrantLease[] {
  return leases.filter((lease) => lease instanceof GrantLease);
}

class CombinedLease extends LeaseBase implements MultiLease {
  private loss: AbortSignal | undefined;
  private request: AbortSignal | undefined;

  constructor(
    readonly leases: readonly Lease[],
    private readonly inOrder: readonly Lease[],
  ) {
    super();
  }

  get key(): string {
    return this.leases.map((lease) => lease.key).join(', ');
  }

  get path(): string {
    return this.leases.map((lease) => lease.path).join(', ');
  }

  /**
   * The highest token of all. It fences each of the locks: the next holder of one is granted it after its release, and
   * the release comes after all of these grants.
   */
  get fencingToken(): bigint {
    return this.leases.map((lease) => lease.fencingToken).reduce((a, b) => (a > b ? a : b));
  }

  get signal(): AbortSignal {
    // Reads the clock, as the signal of a single lease does, so a loss aborts the signal here.
    void this.held;
    // Made when it is asked for, because the signal of a long outer lease collects each signal that depends on it.
    this.loss ??= AbortSignal.any(this.leases.map((lease) => lease.signal));
    return this.loss;
  }

  get revocation(): AbortSignal {
    this.request ??= AbortSignal.any(this.leases.map((lease) => lease.revocation));
    return this.request;
  }

  get held(): boolean {
    return this.leases.every((lease) => lease.held);
  }

  get lost(): LeaseLostError | undefined {
    return this.leases.map((lease) => grantOf(lease)?.lost).find((lost) => lost !== undefined);
  }

  /** @throws IllegalStateError if the locks are locks of several clients, or not locks of this library */
  async transaction<const T extends readonly TransactionOperation[]>(
    operations: T,
  ): Promise<TransactionResults<T>> {
    const grants = this.leases.flatMap((lease) => grantOf(lease) ?? []);
    if (grants.length < this.leases.length) {
      const message = `a lock of the lease on ${this.path} has no znode that a transaction can check`;
      throw new IllegalStateError(message, { key: this.key });
    }
    return transactionOfLease(this, grants, operations);
  }

  protected override giveBack(): Promise<void> {
    return releaseAll(this.inOrder);
  }
}

/**
 * Releases all leases, the last one first.
 *
 * @param cause the failure because of which they are released
 * @throws AggregateError with all failures
 */
async function releaseAll(taken: readonly Lease[], cause?: unknown): Promise<void> {
  const results = await Promise.allSettled(taken.toReversed().map((part) => part.release()));
  const failures = results.flatMap((result) =>
    result.status === 'rejected' ? [result.reason as unknown] : [],
  );
  if (failures.length > 0) {
    throw new AggregateError(failures, 'not all locks could be released', { cause });
  }
}
