import { BadOptionError } from '../client/errors.js';
import type { ZkClient } from '../client/index.js';
import {
  type Entry,
  type Lease,
  type Participant,
  Semaphore,
  SharedCount,
} from '../recipes/index.js';
import { checkKnownOptions, type LeaseDefaults } from './service-options.js';
import { type Asked, LeaseService, unlessTaken } from './lease-service.js';
import { checkKey, semaphorePath } from './keys.js';
import {
  type AcquirePermitOptions,
  checkCount,
  checkSemaphoreOptions,
  checkSemaphoreQuery,
  type SemaphoreQuery,
} from './service-options.js';
import { Turnstile } from './lease-tracker.js';

/**
 * Semaphores by key: at most so many holders at a time, over all processes on the same ensemble and
 * namespace. Permits belong to leases: asking again inside of a call that has one takes another.
 *
 * Every way to take permits may reject with {@link LockBusyError} (`wait: 0`),
 * {@link LockTimeoutError}, {@link WaitCancelledError}, {@link ConnectionError},
 * {@link NotAuthorizedError}, {@link ForeignNodeError}, {@link SequenceExhaustedError},
 * {@link ShuttingDownError} or {@link BadOptionError}, and then has taken none. Two different numbers of
 * permits for one key are a BadOptionError where they are noticed.
 *
 * @publicApi
 */
export class SemaphoreService extends LeaseService {
  protected override readonly noun = 'semaphore';

  constructor(client: ZkClient, defaults: LeaseDefaults = {}, turnstile = new Turnstile()) {
    super(client, defaults, turnstile);
  }

  /** Runs `fn` while holding `count` permits, and gives them back when `fn` has settled. */
  async withPermit<T>(
    key: string,
    options: AcquirePermitOptions,
    fn: (lease: Lease) => T | Promise<T>,
  ): Promise<T> {
    if (typeof fn !== 'function') throw new BadOptionError('fn', fn, 'a function');
    return this.holding(this.enter(key, options), fn);
  }

  /** Takes `count` permits, all or none, for whoever releases the lease. */
  async acquire(key: string, options: AcquirePermitOptions): Promise<Lease> {
    const { asked, semaphore, count } = this.ask(key, options);
    return this.takeLease(asked, (how) => semaphore.acquire({ ...how, count }));
  }

  /** As {@link acquire}, but undefined where too few are left for all of `wait`, by default 0. */
  async tryAcquire(key: string, options: AcquirePermitOptions): Promise<Lease | undefined> {
    checkSemaphoreOptions(options);
    return unlessTaken(this.acquire(key, { ...options, wait: options.wait ?? 0 }));
  }

  /** As {@link acquire}, with a lease for each permit, to give them back one by one. */
  async acquireEach(key: string, options: AcquirePermitOptions): Promise<Lease[]> {
    const { asked, semaphore, count } = this.ask(key, options);
    const leases = await this.take(asked, (how) => semaphore.acquireEach({ ...how, count }));
    return leases.map((lease) => this.track(lease, options));
  }

  /** Takes permits for a holder that is not a callback, such as a stream; see {@link LockService.enter}. */
  async enter(key: string, options: AcquirePermitOptions): Promise<Entry> {
    const { asked, semaphore, count } = this.ask(key, options);
    return this.takeEntry(asked, (how) => semaphore.enter({ ...how, count }));
  }

  /**
   * Sets the number of permits of those who say `permits: 'shared'`, at any time: more of them wake
   * who waits, fewer take nothing from who holds.
   */
  async setPermits(
    key: string,
    permits: number,
    options: Pick<SemaphoreQuery, 'path'> = {},
  ): Promise<void> {
    checkKey(key);
    checkKnownOptions('options', options, ['path']);
    checkCount('permits', permits);
    await this.look(() => this.shared(this.pathOf(key, options.path)).set(permits));
  }

  /** How many permits nobody holds at present. */
  available(key: string, query: SemaphoreQuery): Promise<number> {
    return this.query(key, query, (semaphore) => semaphore.available());
  }

  /** Who holds permits and who waits for them, in their order, over all processes. */
  participants(key: string, query: SemaphoreQuery): Promise<Participant[]> {
    return this.query(key, query, (semaphore) => semaphore.participants());
  }

  /** Asks one participant to give its permits back; see {@link LockService.revoke}. */
  revoke(participant: Participant): Promise<void> {
    return this.revokeOne(participant);
  }

  private async query<T>(
    key: string,
    query: SemaphoreQuery,
    fn: (semaphore: Semaphore) => Promise<T>,
  ): Promise<T> {
    checkKey(key);
    checkSemaphoreQuery(query);
    const semaphore = this.semaphore(key, query);
    return this.look(() => fn(semaphore));
  }

  private ask(key: string, options: AcquirePermitOptions) {
    checkKey(key);
    checkSemaphoreOptions(options);
    const semaphore = this.semaphore(key, options);
    const asked: Asked<AcquirePermitOptions> = {
      key,
      reenters: false,
      locks: [semaphore],
      options,
    };
    return { asked, semaphore, count: options.count };
  }

  private semaphore(key: string, { permits, path: exact }: SemaphoreQuery): Semaphore {
    const path = this.pathOf(key, exact);
    return new Semaphore(this.client, path, {
      key,
      permits: permits === 'shared' ? this.shared(path) : permits,
    });
  }

  /** Beside the directories of the semaphore's own. */
  private shared(path: string): SharedCount {
    return new SharedCount(this.client, `${path}/permits`);
  }

  private pathOf(key: string, path: string | undefined): string {
    return path ?? semaphorePath(this.client.namespace, key);
  }
}
