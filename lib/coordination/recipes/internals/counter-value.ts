import { BadOptionError } from '../../../client/index.js';
import { RecipeConflictError } from '../../../kernel/index.js';
import { CounterOverflowError } from '../errors.js';

/**
 * The value of a counter immediately before and after one change.
 *
 * @publicApi
 */
export interface AtomicValue {
  readonly preValue: bigint;
  readonly postValue: bigint;
}

/** A caller that waits for its change. */
export interface PendingChange {
  /** Returns the new value; undefined leaves the counter as it is. */
  readonly apply: (value: bigint) => bigint | undefined;
  readonly resolve: (values: AtomicValue) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Applies changes one after the other.
 *
 * @returns the last value, undefined if nothing changes the counter; and a function that settles the callers
 */
export function applyChanges(
  changes: readonly PendingChange[],
  current: bigint,
  path: string,
): { value: bigint | undefined; settle: () => void } {
  const outcomes: (() => void)[] = [];
  let value: bigint | undefined;
  for (const { apply, resolve, reject } of changes) {
    const preValue = value ?? current;
    const postValue = apply(preValue);
    if (postValue === undefined) {
      outcomes.push(() => resolve({ preValue, postValue: preValue }));
    } else if (BigInt.asIntN(64, postValue) !== postValue) {
      const message = `counter ${path} is ${preValue}; the change to ${postValue} exceeds a signed 64-bit integer; forceSet() replaces a wrong value`;
      outcomes.push(() => reject(new CounterOverflowError(message, { key: path })));
    } else {
      outcomes.push(() => resolve({ preValue, postValue }));
      value = postValue;
    }
  }
  return {
    value,
    settle: () => {
      for (const outcome of outcomes) outcome();
    },
  };
}

export function checkInt64(value: unknown, option: string): asserts value is bigint {
  if (typeof value === 'bigint' && BigInt.asIntN(64, value) === value) return;
  throw new BadOptionError(option, value, 'a bigint from -2^63 to 2^63 - 1, for example 1n');
}

export function encode(value: bigint): Buffer {
  checkInt64(value, 'value');
  const data = Buffer.alloc(8);
  data.writeBigInt64BE(value);
  return data;
}

/** Empty data is 0, as in Curator. */
export function decode(data: Buffer, path: string): bigint {
  if (data.length === 0) return 0n;
  if (data.length === 8) return data.readBigInt64BE();
  throw new RecipeConflictError(
    `the data of znode ${path} is not a counter (8 bytes): ${data.length} bytes; use another path, or replace the data with forceSet()`,
    { key: path },
  );
}
