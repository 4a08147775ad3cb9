import { BadOptionError } from './errors.js';
import { checkMilliseconds, isRecord } from './validation.js';

/**
 * How the client retries after a connection failure: an object, or a function (see {@link RetryFunction}).
 * It does not apply to waiting for a lock, which the option `wait` of the lock limits.
 *
 * Counterpart of Curator's RetryPolicy (ExponentialBackoffRetry, RetryNTimes, RetryForever).
 *
 * @publicApi
 */
export type RetryPolicy =
  | {
      /** The delay is random between 0 and a limit that doubles with each attempt ("full jitter"). */
      type: 'exponential';
      /** The first limit, milliseconds; default 100. */
      baseDelay?: number;
      /** The maximum of the limit, milliseconds; default 3,000, or `baseDelay` if that is more. */
      maxDelay?: number;
      /** Attempts after the first; default 10: about 9 seconds of waiting on average, 18 at most. */
      maxAttempts?: number;
    }
  | {
      type: 'fixed';
      /** Milliseconds. */
      delay: number;
      /** Attempts after the first; default 10. */
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
 * A custom retry policy. `attempt` is the number of failed attempts, from 1; `elapsedMs` is the time since
 * the first began, milliseconds. Returns the delay before the next attempt, milliseconds, or undefined to
 * give up.
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

/**
 * Converts a policy to a function. The delays that a custom function returns are checked at each call.
 *
 * @throws BadOptionError
 */
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
