import { BadOptionError } from './errors.js';
import { checkMilliseconds, isRecord } from './validation.js';

/**
 * How trouble with the connection is met: how long to wait before the next try, and when to give up.
 * A description, or a function from the number of tries that failed (from 1) and the milliseconds
 * since the first began to the delay in milliseconds, or to undefined: give up. Contention for a lock
 * is no such trouble; a lock's own `wait` bounds it.
 *
 * Counterpart of Curator's RetryPolicy (ExponentialBackoffRetry, RetryNTimes, RetryForever).
 *
 * @publicApi
 */
export type RetryPolicy =
  | {
      /** The delay is random between 0 and a bound that doubles with each try ("full jitter"). */
      type: 'exponential';
      /** The first bound, milliseconds; default 100. */
      baseDelay?: number;
      /** The bound grows no further than this, milliseconds; default 3,000. */
      maxDelay?: number;
      /** Tries after the first; default 10: about 9 seconds of waiting on average, 18 at most. */
      maxAttempts?: number;
    }
  | {
      type: 'fixed';
      /** Milliseconds. */
      delay: number;
      /** Tries after the first; default 10. */
      maxAttempts?: number;
    }
  | {
      type: 'forever';
      /** Milliseconds. */
      delay: number;
    }
  | { type: 'none' }
  | RetryFunction;

/**
 * A {@link RetryPolicy} of your own; see there.
 *
 * @publicApi
 */
export type RetryFunction = (attempt: number, elapsedMs: number) => number | undefined;

const FIELDS: Readonly<Record<string, readonly string[]>> = {
  exponential: ['baseDelay', 'maxDelay', 'maxAttempts'],
  fixed: ['delay', 'maxAttempts'],
  forever: ['delay'],
  none: [],
};

/** The policy as a function; its delays are checked, whoever wrote it. */
export function toRetryFunction(
  policy: unknown = { type: 'exponential' },
  option = 'retry',
  random: () => number = Math.random,
): RetryFunction {
  if (typeof policy === 'function') {
    return (attempt, elapsed) => {
      const delay: unknown = policy(attempt, elapsed);
      return delay === undefined ? undefined : checkMilliseconds(delay, `${option}()`, 0);
    };
  }
  if (!isRecord(policy)) {
    throw new BadOptionError(option, policy, 'a retry policy { type, … } or a function');
  }
  const { type, ...rest } = policy;
  const fields = typeof type === 'string' && Object.hasOwn(FIELDS, type) ? FIELDS[type] : undefined;
  if (!fields) {
    throw new BadOptionError(`${option}.type`, type, `one of ${Object.keys(FIELDS).join(', ')}`);
  }
  for (const name of Object.keys(rest)) {
    if (!fields.includes(name)) {
      throw new BadOptionError(
        `${option}.${name}`,
        rest[name],
        `left out for the type ${String(type)}`,
      );
    }
  }
  const { baseDelay = 100, maxAttempts = 10, delay: fixedDelay } = rest;
  const attempts = checkAttempts(maxAttempts, `${option}.maxAttempts`);

  switch (type) {
    case 'exponential': {
      const base = checkMilliseconds(baseDelay, `${option}.baseDelay`);
      const { maxDelay = Math.max(3000, base) } = rest;
      const max = checkMilliseconds(maxDelay, `${option}.maxDelay`);
      return (attempt) =>
        attempt > attempts ? undefined : random() * Math.min(max, base * 2 ** (attempt - 1));
    }
    case 'fixed': {
      const delay = checkMilliseconds(fixedDelay, `${option}.delay`, 0);
      return (attempt) => (attempt > attempts ? undefined : delay);
    }
    case 'forever': {
      const delay = checkMilliseconds(fixedDelay, `${option}.delay`);
      return () => delay;
    }
    default:
      return () => undefined;
  }
}

function checkAttempts(value: unknown, option: string): number {
  if (!Number.isSafeInteger(value) || (value as number) < 0) {
    throw new BadOptionError(option, value, 'a whole number of attempts');
  }
  return value as number;
}
