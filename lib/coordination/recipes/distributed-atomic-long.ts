import {
  BadOptionError,
  checkBelowRoot,
  checkOptions,
  type RetryPolicy,
  type Rules,
  toRetryFunction,
  uncheckedRules,
  type ZkClient,
} from '../../client/index.js';
import { createPersistent, duration, setPersistent } from '../../kernel/index.js';
import { Mutex } from '../../recipes/index.js';
import { type AtomicValue, checkInt64, encode } from './internals/counter-value.js';
import { CounterWriter } from './internals/counter-writer.js';

export type { AtomicValue };

/*
 * Counter (Curator's DistributedAtomicLong): a signed 64-bit integer in a znode, 8 bytes, big-endian.
 *
 *   1. Read the value, unless it is known from the write just before. A result without a write, such as that of a
 *      `compareAndSet` with another value, needs a read after a `sync`, because the server may lag behind.
 *   2. Apply the changes of all callers that wait, in their order.
 *   3. Write the result with the version of that value. One write serves all these callers.
 *   4. If the version has changed, go to 1, with a random delay between the attempts.
 *   5. When the retry policy gives up, acquire the lock at `lockPath` and continue as its holder. The write is still
 *      conditional on the version, because other processes may write without the lock.
 *
 * A write whose reply was lost is repeated only if it cannot be applied twice, see internals/unconfirmed-write.ts.
 */

/**
 * The options of a {@link DistributedAtomicLong}.
 *
 * @publicApi
 */
export interface DistributedAtomicLongOptions {
  /**
   * Limits how often a change is repeated when another process has changed the counter in between. Default: 20 times,
   * after a random delay of up to 2 ms that grows to up to 100 ms.
   */
  retry?: RetryPolicy | undefined;
  /**
   * The znode of a {@link Mutex} that a change acquires when `retry` gives up, to continue as its holder: Curator's
   * `PromotedToLock`. All processes should have the same path. It must not be the path of the counter. Default: none, and
   * the change rejects when `retry` gives up.
   */
  lockPath?: string | undefined;
  /** Milliseconds to wait for that lock. The holder then repeats the change for the same time. Default 10,000. */
  lockWait?: number | undefined;
}

const RULES: Rules<DistributedAtomicLongOptions> = {
  ...uncheckedRules('retry', 'lockPath'),
  lockWait: duration,
};

const DEFAULT_RETRY: RetryPolicy = {
  type: 'exponential',
  baseDelay: 2,
  maxDelay: 100,
  maxRetries: 20,
};

/**
 * A counter that all processes share, in the format of Curator's `DistributedAtomicLong`: a signed 64-bit integer. A
 * counter that does not exist is 0, and the first change creates it.
 *
 * A change reads the counter and writes it: two round trips. Changes that wait in this object are combined into one
 * write, so keep the object and share it between callers.
 *
 * A change that resolves was applied once. A change that rejects was not applied, except after a
 * `ConnectionError` with `maybeApplied: true` or a `ShuttingDownError`: the reply to the write was lost
 * then, and the counter does not show whether the write was applied. Besides the errors of {@link ZkClient}, all
 * methods that read the counter reject with a `RecipeConflictError` if the data of the znode has another format.
 *
 * @publicApi
 */
export class DistributedAtomicLong {
  private readonly writer: CounterWriter;

  /** @throws BadOptionError if the path or an option is invalid */
  constructor(
    readonly client: ZkClient,
    /** The znode of the counter. */
    readonly path: string,
    options: DistributedAtomicLongOptions = {},
  ) {
    checkBelowRoot(path);
    const { retry = DEFAULT_RETRY, lockPath, lockWait = 10_000 } = checkOptions(options, RULES);
    if (lockPath !== undefined) checkBelowRoot(lockPath, 'lockPath');
    if (lockPath === path) {
      throw new BadOptionError('lockPath', lockPath, 'another path than that of the counter');
    }
    const lock = lockPath === undefined ? undefined : new Mutex(client, lockPath);
    this.writer = new CounterWriter(client, path, toRetryFunction(retry), lock, lockWait);
  }

  /**
   * Reads the value. The server that replies may lag behind the others: call `client.sync(path)` before it, if the value
   * must include all changes made before the call.
   */
  async get(): Promise<bigint> {
    return (await this.writer.read())?.value ?? 0n;
  }

  /** As {@link add} with 1. */
  async increment(): Promise<AtomicValue> {
    return this.add(1n);
  }

  /** As {@link add} with -1. */
  async decrement(): Promise<AtomicValue> {
    return this.add(-1n);
  }

  /**
   * Adds `delta` to the value.
   *
   * @throws CounterOverflowError; LockTimeoutError if other processes changed the counter at each attempt, or the lock
   *   was not granted in time
   */
  async add(delta: bigint): Promise<AtomicValue> {
    checkInt64(delta, 'delta');
    return this.writer.change((value) => value + delta);
  }

  /** As {@link add}, but subtracts `delta`. */
  async subtract(delta: bigint): Promise<AtomicValue> {
    checkInt64(delta, 'delta');
    return this.writer.change((value) => value - delta);
  }

  /**
   * Sets the value if it is `expected`. Otherwise `succeeded` is false, and `preValue` is the current value. In contrast to
   * Curator's, it repeats the attempt if another process wrote in between, and a missing counter is 0.
   *
   * @throws LockTimeoutError as {@link add}
   */
  async compareAndSet(
    expected: bigint,
    value: bigint,
  ): Promise<AtomicValue & { readonly succeeded: boolean }> {
    checkInt64(expected, 'expected');
    checkInt64(value, 'value');
    const values = await this.writer.change((current) =>
      current === expected ? value : undefined,
    );
    return { succeeded: values.preValue === expected, ...values };
  }

  /**
   * Sets the value. `preValue` is the value before.
   *
   * @throws LockTimeoutError as {@link add}
   */
  async trySet(value: bigint): Promise<AtomicValue> {
    checkInt64(value, 'value');
    return this.writer.change(() => value);
  }

  /** Sets the value, whatever it is and whatever the format of the data is. */
  async forceSet(value: bigint): Promise<void> {
    await setPersistent(this.client, this.path, encode(value));
  }

  /**
   * Creates the counter with a value. Resolves to false, and changes nothing, if it exists already. It may be repeated
   * after any error.
   */
  async initialize(value: bigint): Promise<boolean> {
    return createPersistent(this.client, this.path, encode(value));
  }
}
