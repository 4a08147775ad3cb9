import { BadOptionError } from './errors.js';
import { checkMilliseconds, isRecord } from './validation.js';

/**
 * How the client retries after a connection failure: an object, or a function (see `RetryFunction`).
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
      baseDelay?: number | undefined;
      /** The maximum of the limit, milliseconds; default 3,000, or `baseDelay` if that is more. */
      maxDelay?: number | undefined;
      /**
       * The number of attempts after the first one. The default waits for about 9 seconds on average, and 18 at most.
       * Default 10.
       */
      maxRetries?: number | undefined;
    }
  | {
      type: 'fixed';
      /** The time before each attempt, milliseconds. */
      delay: number;
      /** The number of attempts after the first one; default 10. */
      maxRetries?: number | undefined;
    }
  | {
      type: 'forever';
      /** The time before each attempt, milliseconds. */
      delay: number;
    }
  | { type: 'none' }
  | RetryFunction;

/**
 * A custom retry policy. `attempt` is the number of failed attempts, from 1; `elapsedMs` is the time since the first
 * began, milliseconds. Returns the delay before the next attempt, milliseconds, or undefined to give up.
 *
 * @publicApi
 */
export type RetryFunction = (attempt: number, elapsedMs: number) => number | undefined;

const FIELDS: ReadonlyMap<unknown, readonly string[]> = new Map([
  ['exponential', ['baseDelay', 'maxDelay', 'maxRetries']],
  ['fixed', ['delay', 'maxRetries']],
  ['forever', ['delay']],
  ['none', []],
]);

/**
 * Converts the option `retry` to a function. The delays that a custom function returns are checked at each call.
 *
 * @throws BadOptionError
 */
export function toRetryFunction(
  policy: unknown = { type: 'exponential' },
  random: () => number = Math.random,
): RetryFunction {
  if (typeof policy === 'function') {
    return (attempt, elapsed) => {
      const delay: unknown = policy(attempt, elapsed);
      return delay === undefined ? undefined : checkMilliseconds(delay, 'retry()', 0);
    };
  }
  if (!isRecord(policy)) {
    throw new BadOptionError('retry', policy, 'a retry policy { type, … } or a function');
  }
  const { type, ...rest } = policy;
  const fields = FIELDS.get(type);
  if (!fields) {
    throw new BadOptionError('retry.type', type, `one of ${[...FIELDS.keys()].join(', ')}`);
  }
  for (const [name, value] of Object.entries(rest)) {
    if (value === undefined || fields.includes(name)) continue;
    throw new BadOptionError(`retry.${name}`, value, `left out for the type ${String(type)}`);
  }
  const { baseDelay = 100, maxRetries = 10, delay } = rest;
  if (!Number.isSafeInteger(maxRetries) || (maxRetries as number) < 0) {
    throw new BadOptionError('retry.maxRetries', maxRetries, 'a whole number of 0 or more');
  }
  const isOver = (attempt: number) => attempt > (maxRetries as number);

  switch (type) {
    case 'exponential': {
      const base = checkMilliseconds(baseDelay, 'retry.baseDelay');
      const { maxDelay = Math.max(3000, base) } = rest;
      const max = checkMilliseconds(maxDelay, 'retry.maxDelay');
      return (attempt) =>
        isOver(attempt) ? undefined : random() * Math.min(max, base * 2 ** (attempt - 1));
    }
    case 'fixed': {
      const fixed = checkMilliseconds(delay, 'retry.delay', 0);
      return (attempt) => (isOver(attempt) ? undefined : fixed);
    }
    case 'forever': {
      const fixed = checkMilliseconds(delay, 'retry.delay');
      return () => fixed;
    }
    default:
      return () => undefined;
  }
}
