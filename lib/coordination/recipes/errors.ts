import { CoordinationError } from '../../client/index.js';

/**
 * The new value of a counter would not fit into a signed 64-bit integer. The counter is unchanged. Curator's
 * DistributedAtomicLong continues with the smallest integer.
 * Cause: the counter is near 2^63 - 1 or -2^63, or `delta` is very large.
 * Remedy: read the counter with `get()`, find the caller that added too much, and correct the value with `forceSet()`.
 *
 * @publicApi
 */
export class CounterOverflowError extends CoordinationError {
  readonly code = 'OVERFLOW';
}
