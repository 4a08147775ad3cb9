import { BadOptionError } from '../client/errors.js';
import {
  BELOW_ROOT,
  checkFunction,
  checkOptions,
  checkValue,
  rule,
  type Rules,
  wholeNumber,
} from '../client/validation.js';
import {
  type Entry,
  type Lease,
  type Participant,
  Semaphore,
  SharedCount,
} from '../recipes/index.js';
import { checkKey, semaphorePath } from './keys.js';
import {
  checkLeaseOptions,
  LEASE_RULES,
  type LeaseOptions,
  type LeaseRequest,
  LeaseService,
  type OptionNaming,
} from './lease-service.js';

/**
 * Selects a semaphore and its number of permits.
 *
 * @publicApi
 */
export interface SemaphoreQuery {
  /**
   * The number of permits: a number on which all users of the key agree, or `'shared'` for the number
   * that {@link SemaphoreService.setPermits} set.
   */
  permits: number | 'shared';
  /** The exact znode to use. Default: `<namespace>/semaphores/<key>`. */
  path?: string | undefined;
}

/**
 * Options of the methods of {@link SemaphoreService} that acquire.
 *
 * @publicApi
 */
export interface AcquirePermitOptions extends LeaseOptions, SemaphoreQuery {
  /** The number of permits to acquire, all or none. Default 1. */
  count?: number | undefined;
}

const permitsRule = rule(
  "a whole number of 1 or more, or 'shared'",
  (value: unknown) => value === 'shared' || wholeNumber(1)(value) === undefined,
);
const QUERY_RULES: Rules<SemaphoreQuery> = { permits: permitsRule, path: BELOW_ROOT };
export const SEMAPHORE_RULES: Rules<AcquirePermitOptions> = {
  ...LEASE_RULES,
  ...QUERY_RULES,
  count: wholeNumber(1),
};

export function checkSemaphoreOptions(
  options: unknown,
  named: OptionNaming = (option) => option,
): asserts options is AcquirePermitOptions {
  checkLeaseOptions(options as AcquirePermitOptions, SEMAPHORE_RULES, named);
  const { permits, count = 1 } = options as AcquirePermitOptions;
  checkValue(named('permits'), permits, permitsRule);
  if (permits !== 'shared' && count > permits) {
    throw new BadOptionError(named('count'), count, `at most the ${permits} permits there are`);
  }
}

/**
 * Semaphores by key: a limited number of holders at a time, across all processes on the same ensemble and
 * namespace. Permits belong to leases: a nested call for the same key acquires further permits.
 *
 * Each method that acquires may reject as those of a `Lock` do. It then holds nothing. Callers that pass
 * different numbers of permits for one key get a BadOptionError if the conflict is noticed.
 *
 * @publicApi
 */
export class SemaphoreService extends LeaseService {
  /** Runs `fn` while holding `count` permits, and releases them when the result of `fn` has settled. */
  async withPermit<T>(
    key: string,
    options: AcquirePermitOptions,
    fn: (lease: Lease) => T | Promise<T>,
  ): Promise<T> {
    checkFunction(fn, 'fn');
    return this.runHolding(this.request(key, options), fn);
  }

  /** Acquires `count` permits, all or none. Any call chain may release the lease. */
  async acquire(key: string, options: AcquirePermitOptions): Promise<Lease> {
    return this.acquireLease(this.request(key, options));
  }

  /** As {@link acquire}, but resolves to undefined if too few permits are free for all of `wait`, by default 0. */
  async tryAcquire(key: string, options: AcquirePermitOptions): Promise<Lease | undefined> {
    return this.tryAcquireLease(this.request(key, options));
  }

  /** As {@link acquire}, with one lease for each permit, so that they can be released one by one. */
  async acquireEach(key: string, options: AcquirePermitOptions): Promise<Lease[]> {
    const request = this.request(key, options);
    return this.acquireBy(
      request,
      (acquireOptions) => request.target.acquireEachChecked(acquireOptions),
      (leases) => {
        for (const lease of leases) this.track(lease, request);
      },
    );
  }

  /** Acquires permits for a holder that is not a callback, such as a stream; see {@link LockService.enter}. */
  async enter(key: string, options: AcquirePermitOptions): Promise<Entry> {
    return this.enterBy(this.request(key, options));
  }

  /**
   * Sets the number of permits for the callers that pass `permits: 'shared'`. A higher number wakes
   * waiters; a lower number takes nothing from current holders.
   *
   * @param permits 1 or more; anything else is a BadOptionError
   */
  async setPermits(
    key: string,
    permits: number,
    options: Pick<SemaphoreQuery, 'path'> = {},
  ): Promise<void> {
    checkKey(key);
    checkOptions(options, { path: BELOW_ROOT });
    checkValue('permits', permits, wholeNumber(1));
    await this.readBy(() => this.sharedPermits(this.pathOf(key, options.path)).set(permits));
  }

  /** Resolves to the number of permits that nobody holds. A shared number that was never set is a BadOptionError. */
  available(key: string, query: SemaphoreQuery): Promise<number> {
    return this.query(key, query, (semaphore) => semaphore.available());
  }

  /** Resolves to the holders and waiters of all processes, in the order of their queue. */
  participants(key: string, query: SemaphoreQuery): Promise<Participant[]> {
    return this.query(key, query, (semaphore) => semaphore.participants());
  }

  /** Asks one participant to release its permits; see {@link LockService.revoke}. */
  revoke(participant: Participant): Promise<void> {
    return this.revokeParticipant(participant);
  }

  private async query<T>(
    key: string,
    query: SemaphoreQuery,
    fn: (semaphore: Semaphore) => Promise<T>,
  ): Promise<T> {
    checkKey(key);
    checkOptions(query, QUERY_RULES);
    checkValue('permits', query.permits, permitsRule);
    const semaphore = this.semaphoreOf(key, query);
    return this.readBy(() => fn(semaphore));
  }

  private request(key: string, options: AcquirePermitOptions): LeaseRequest<Lease, Semaphore> {
    checkKey(key);
    checkSemaphoreOptions(options);
    const { path, permits, onRevoke, ...acquireOptions } = options;
    const semaphore = this.semaphoreOf(key, { path, permits });
    return {
      key,
      noun: 'semaphore',
      locks: [semaphore],
      target: semaphore,
      options: acquireOptions,
      onRevoke,
    };
  }

  protected semaphoreOf(key: string, { permits, path: exactPath }: SemaphoreQuery): Semaphore {
    const path = this.pathOf(key, exactPath);
    return new Semaphore(this.client, path, {
      key,
      permits: permits === 'shared' ? this.sharedPermits(path) : permits,
    });
  }

  /** The znode of the number is a sibling of the semaphore's own directories. */
  protected sharedPermits(path: string): SharedCount {
    return new SharedCount(this.client, `${path}/permits`);
  }

  private pathOf(key: string, path: string | undefined): string {
    return path ?? semaphorePath(this.client.namespace, key);
  }
}
