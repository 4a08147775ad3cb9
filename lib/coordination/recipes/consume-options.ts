import {
  ABORT_SIGNAL,
  checkOptions,
  FUNCTION,
  milliseconds,
  oneOf,
  type Rules,
  wholeNumber,
} from '../../client/index.js';

/**
 * The context of one call of a handler: the znode of the item, the attempt, and the lock.
 *
 * @publicApi
 */
export interface QueueItemContext {
  /** The name of the znode. Items that were put together share it. */
  readonly name: string;
  /** The number of this attempt, from 1. Each attempt in which a handler of this library threw adds 1. A crash does not. */
  readonly attempt: number;
  /** Aborts with a LeaseLostError when the lock of the item is lost: another consumer may handle the item now. */
  readonly signal: AbortSignal;
  /** Whether this consumer has the lock of the item. Reads the clock of the session. */
  readonly held: boolean;
}

/**
 * Handles one item. When it resolves, the item is deleted.
 *
 * @publicApi
 */
export type QueueHandler<T> = (item: T, context: QueueItemContext) => unknown;

/**
 * The options of a consumer.
 *
 * @publicApi
 */
export interface ConsumeOptions {
  /**
   * The number of items that are handled at the same time. Default 1. One consumer keeps the order, except for items that
   * it retries.
   */
  concurrency?: number | undefined;
  /**
   * What happens to an item whose handler throws. `'requeue'`: it stays in the queue, and is handled again after
   * `retryDelay`. `'delete'`: it is deleted. Curator's ErrorMode. Default `'requeue'`.
   */
  errorMode?: 'requeue' | 'delete' | undefined;
  /**
   * Milliseconds before this consumer handles an item again after the first failed attempt of any consumer. Each further
   * failed attempt doubles it, up to a minute, or up to `retryDelay` if that is longer. The consumer whose handler threw
   * waits 1.5 times as long, so that another consumer handles the item first. Errors of requests double the delay in the
   * same way, for this consumer only. At least 1. Default 1000.
   */
  retryDelay?: number | undefined;
  /**
   * Milliseconds that `close()` waits for running handlers. Then it aborts their signals and releases the locks of their
   * items. Default 10,000.
   */
  stopTimeout?: number | undefined;
  /** Closes the consumer when it aborts. Default: none. */
  signal?: AbortSignal | undefined;
  /**
   * Called with each {@link QueueItemError}, and once with an error that prevents the consumer from reading the queue, from
   * creating locks, or from deleting items. Default: `onError` of the queue.
   */
  onError?: ((error: Error) => void) | undefined;
}

export const CONSUME_RULES: Rules<ConsumeOptions> = {
  concurrency: wholeNumber(1),
  errorMode: oneOf('requeue', 'delete'),
  retryDelay: milliseconds(),
  stopTimeout: milliseconds(0),
  signal: ABORT_SIGNAL,
  onError: FUNCTION,
};

/**
 * A running consumer.
 *
 * @publicApi
 */
export interface ConsumerHandle {
  /**
   * Takes no more items, and waits until the running handlers have settled and their items are deleted, at most
   * `stopTimeout`. Idempotent.
   */
  close(): Promise<void>;
}

/** Checks the options of a consumer, and returns them with their defaults. */
export function checkConsume(
  options: ConsumeOptions,
  defaultOnError: (error: Error) => void,
): Required<Omit<ConsumeOptions, 'signal'>> {
  checkOptions(options, CONSUME_RULES);
  const {
    concurrency = 1,
    errorMode = 'requeue',
    retryDelay = 1000,
    stopTimeout = 10_000,
    onError = defaultOnError,
  } = options;
  return { concurrency, errorMode, retryDelay, stopTimeout, onError };
}
