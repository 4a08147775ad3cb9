import { BadOptionError } from '../client/errors.js';
import {
  checkLeaseOptions,
  checkKnownOptions,
  LEASE_OPTIONS,
  type LeaseOptions,
} from './lease-options.js';

/**
 * Which semaphore is meant, and how many permits it has.
 *
 * @publicApi
 */
export interface SemaphoreQuery {
  /**
   * How many permits there are: a number that all users of the key agree on, or `'shared'` for the
   * number that {@link SemaphoreService.setPermits} set.
   */
  permits: number | 'shared';
  /** The exact znode of the semaphore instead of `<namespace>/semaphores/<key>`. */
  path?: string;
}

/**
 * What the methods of {@link SemaphoreService} take that acquire.
 *
 * @publicApi
 */
export interface AcquirePermitOptions extends LeaseOptions, SemaphoreQuery {
  /** How many permits to take, all or none. Default 1. */
  count?: number;
}

export const SEMAPHORE_OPTIONS = [
  ...LEASE_OPTIONS,
  'permits',
  'count',
] satisfies (keyof AcquirePermitOptions)[];

const QUERY_OPTIONS = ['permits', 'path'] satisfies (keyof SemaphoreQuery)[];

export function checkSemaphoreOptions(
  options: unknown,
  named = (option: string) => option,
): asserts options is AcquirePermitOptions {
  checkKnownOptions(named('options'), options, SEMAPHORE_OPTIONS);
  const { permits, count = 1 } = options as AcquirePermitOptions;
  checkPermits(permits, named);
  checkCount(named('count'), count);
  if (permits !== 'shared' && count > permits) {
    throw new BadOptionError(named('count'), count, `at most the ${permits} permits there are`);
  }
  checkLeaseOptions(options as AcquirePermitOptions, named);
}

export function checkSemaphoreQuery(options: unknown): asserts options is SemaphoreQuery {
  checkKnownOptions('options', options, QUERY_OPTIONS);
  checkPermits((options as SemaphoreQuery).permits);
}

export function checkCount(
  what: string,
  count: unknown,
  expected = 'a whole number of 1 or more',
): asserts count is number {
  if (!Number.isSafeInteger(count) || (count as number) < 1) {
    throw new BadOptionError(what, count, expected);
  }
}

function checkPermits(permits: unknown, named = (option: string) => option): void {
  if (permits === 'shared') return;
  checkCount(named('permits'), permits, "a whole number of 1 or more, or 'shared'");
}
