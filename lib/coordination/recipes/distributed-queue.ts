import { randomUUID } from 'node:crypto';
import { setMaxListeners } from 'node:events';
import {
  BadOptionError,
  BOOLEAN,
  checkBelowRoot,
  checkFunction,
  checkOptions,
  foreignText,
  FUNCTION,
  isRecord,
  MAX_REQUEST,
  rule,
  type Rules,
  ShuttingDownError,
  UNCHECKED,
  warn,
  wholeNumber,
  type ZkClient,
} from '../../client/index.js';
import {
  childrenOf,
  ErrorReporter,
  RecipeConflictError,
  WAIT_RULES,
  type WaitOptions,
} from '../../kernel/index.js';
import {
  BYTES,
  encodeItems,
  ITEM_PREFIX,
  type QueueSerializer,
  serializeItem,
} from './internals/queue-items.js';
import { QueuePut } from './internals/queue-put.js';
import type { ConsumeOptions, ConsumerHandle, QueueHandler } from './consume-options.js';
import { ConsumerLoop } from './consumer-loop.js';

/**
 * The options of a queue. All users of a queue must have the same `lockPath` and serializers that understand each other.
 *
 * @publicApi
 */
export interface QueueOptions<T> {
  /**
   * The parent znode of the locks of the items. It must not be below the path of the items. Curator's
   * `QueueBuilder.lockPath`. Default: the path and `-locks`.
   */
  lockPath?: string | undefined;
  /**
   * The maximum number of items' znodes. A put waits while the queue has this many. Producers that put at the same time
   * may exceed it. Curator's `QueueBuilder.maxItems`. Default: no limit.
   */
  maxItems?: number | undefined;
  /**
   * Whether each put has a priority, and a consumer lists the queue again before each item, if the queue has changed. The same
   * for all users of the queue. Curator's DistributedPriorityQueue. Default false.
   */
  prioritized?: boolean | undefined;
  /** Converts items to bytes and back. Default: the items are Buffers. */
  serializer?: QueueSerializer<T> | undefined;
  /**
   * Called with the errors of consumers, see `ConsumeOptions.onError`, and with a RecipeConflictError if the queue has
   * znodes of another recipe: once, until they are gone. Default: a process warning.
   */
  onError?: ((error: Error) => void) | undefined;
}

const RULES: Rules<QueueOptions<unknown>> = {
  lockPath: UNCHECKED,
  maxItems: rule(
    'a whole number of 1 or more, or Infinity',
    (value: unknown) => value === Infinity || wholeNumber(1)(value) === undefined,
  ),
  prioritized: BOOLEAN,
  serializer: UNCHECKED,
  onError: FUNCTION,
};

/**
 * The options of a put.
 *
 * @publicApi
 */
export interface PutOptions extends WaitOptions {
  /** A whole number of 32 bits; items with a lower one are handled first. Only with `prioritized`. Default 0. */
  priority?: number | undefined;
}

const PUT_RULES: Rules<PutOptions> = {
  ...WAIT_RULES,
  priority: rule('an integer of 32 bits', (value: number) => (value | 0) === value),
};

/**
 * A queue whose items are handled in the order of their puts; with `prioritized` in the order of their priorities, and of their
 * puts within a priority. The same znodes as Curator's DistributedQueue and DistributedPriorityQueue with a `lockPath`, so
 * that processes with Curator can put and consume at the same time.
 *
 * For queues of up to a few hundred items: ZooKeeper keeps all items in memory, and each consumer lists their names.
 *
 * @publicApi
 */
export class DistributedQueue<T = Buffer> {
  /** The parent znode of the locks of the items. */
  readonly lockPath: string;
  readonly maxItems: number;
  private readonly prioritized: boolean;
  private readonly serializer: QueueSerializer<T>;
  private readonly onError: (error: Error) => void;
  /** Whether the znodes of another recipe are reported. */
  private conflictReported = false;
  private readonly closing = new AbortController();
  private readonly puts = new Set<Promise<string>>();
  private readonly consumers = new Set<ConsumerLoop<T>>();

  /** @throws BadOptionError */
  constructor(
    readonly client: ZkClient,
    /** The parent znode of the items. */
    readonly path: string,
    options: QueueOptions<T> = {},
  ) {
    checkBelowRoot(path);
    checkOptions(options, RULES);
    const { lockPath = `${path}-locks`, maxItems = Infinity, serializer, onError = warn } = options;
    this.prioritized = options.prioritized ?? false;
    checkBelowRoot(lockPath, 'lockPath');
    if (`${lockPath}/`.startsWith(`${path}/`)) {
      // The queue reports each child that is no item.
      const expected = 'a znode that is neither the path of the items nor below it';
      throw new BadOptionError('lockPath', lockPath, expected);
    }
    if (serializer !== undefined) {
      if (!isRecord(serializer)) throw new BadOptionError('serializer', serializer, 'an object');
      checkFunction(serializer.serialize, 'serializer.serialize');
      checkFunction(serializer.deserialize, 'serializer.deserialize');
    }
    // Node warns about more than 10 listeners, and each put adds one.
    setMaxListeners(0, this.closing.signal);
    this.onError = onError;
    this.lockPath = lockPath;
    this.maxItems = maxItems;
    this.serializer = serializer ?? (BYTES as QueueSerializer<unknown> as QueueSerializer<T>);
  }

  /** Reads the number of items' znodes. Items that were put together share one. Curator's getLastMessageCount. */
  async size(): Promise<number> {
    return this.itemsIn(await childrenOf(this.client, this.path)).length;
  }

  /**
   * Starts a consumer, which handles each item while it holds the lock of the item. A crashed consumer loses its locks with
   * its session, and another consumer handles its items: an item is handled at least once.
   *
   * @throws BadOptionError; ShuttingDownError if the queue was closed
   */
  consume(handler: QueueHandler<T>, options: ConsumeOptions = {}): ConsumerHandle {
    this.closing.signal.throwIfAborted();
    const { client, path, lockPath, serializer, onError, prioritized } = this;
    const { itemsIn, ensurePaths } = this;
    const queue = {
      client,
      path,
      lockPath,
      serializer,
      onError,
      prioritized,
      itemsIn,
      ensurePaths,
    };
    const consumer: ConsumerLoop<T> = new ConsumerLoop(queue, handler, options, () =>
      this.consumers.delete(consumer),
    );
    this.consumers.add(consumer);
    return consumer;
  }

  /**
   * Closes the consumers, rejects puts that wait for space or for the connection, and waits up to 2 seconds for the replies to
   * puts that were sent. Later calls reject with a ShuttingDownError. The client stays open. Idempotent. Curator's close with its
   * `flushPuts`.
   */
  async close(): Promise<void> {
    this.closing.abort(
      new ShuttingDownError(`the queue ${this.path} was closed`, { key: this.path }),
    );
    const closed = [...this.consumers].map((consumer) => consumer.close());
    await Promise.allSettled([...closed, ...this.puts]);
  }

  /**
   * Puts an item. Resolves to the name of its znode when the ensemble has it. After a lost reply it looks for the item. If
   * the item is not in the queue then, it rejects with a ConnectionError with `maybeApplied: true`: the put was not
   * applied, or a consumer has handled the item already. The same error ends the wait for a connection after a lost reply,
   * when `wait` ends, `signal` aborts or the queue is closed. Other errors mean that nothing was put, except a
   * ShuttingDownError of the client.
   *
   * @throws BadOptionError, ConnectionError, QueueFullError, WaitTimeoutError, WaitCancelledError, NotAuthorizedError,
   *   SequenceExhaustedError, ShuttingDownError
   */
  put(item: T, options: PutOptions = {}): Promise<string> {
    return this.putMulti([item], options);
  }

  /** As {@link put} for several items in one znode: one consumer handles them one after the other. Curator's MultiItem. */
  async putMulti(items: readonly T[], options: PutOptions = {}): Promise<string> {
    const { priority, ...wait } = checkOptions(options, PUT_RULES);
    if (priority !== undefined && !this.prioritized) {
      const expected = 'left out for a queue without the option prioritized';
      throw new BadOptionError('priority', priority, expected);
    }
    this.closing.signal.throwIfAborted();
    if (!Array.isArray(items) || items.length === 0) {
      throw new BadOptionError('items', items, 'an array of at least one item');
    }
    const id = Buffer.from(randomUUID().replaceAll('-', ''), 'hex');
    // In contrast to items.map(), it does not skip the holes of an array.
    const stored = Array.from(items, (item: T) => serializeItem(this.serializer, item));
    const data = encodeItems({ items: stored, id, attempts: 0 });
    const { client, path, maxItems, itemsIn, ensurePaths } = this;
    if (data.length > MAX_REQUEST) {
      const option = stored.length === 1 ? 'item' : 'items';
      throw new BadOptionError(option, data.length, `at most ${MAX_REQUEST} bytes in one znode`);
    }
    const queue = { client, path, maxItems, itemsIn, ensurePaths };
    const prefix = this.prioritized ? priorityPrefix(priority ?? 0) : '';
    const put = new QueuePut(queue, ITEM_PREFIX + prefix, data, id);
    const result = put.run(wait, this.closing.signal);
    this.puts.add(result);
    try {
      return await result;
    } finally {
      this.puts.delete(result);
    }
  }

  /** Creates the missing znodes as Curator does: they are persistent, and their parents are containers. */
  private readonly ensurePaths = async (): Promise<void> => {
    for (const path of [this.path, this.lockPath]) {
      await this.client.ensureContainers(path, { persistent: true });
    }
  };

  /** Returns the items among the children of the queue. Reports the others once. */
  private readonly itemsIn = (children: readonly string[]): string[] => {
    const { path: key } = this;
    const items = children.filter((name) => name.startsWith(ITEM_PREFIX));
    const others = children.length - items.length;
    if (others > 0 && !this.conflictReported) {
      const example = foreignText(children.find((name) => !name.startsWith(ITEM_PREFIX)));
      const message = `${others} znode(s) of the queue ${key} are no items, for example ${example}: consumers ignore them, and size() and maxItems do not count them. Delete them, or use another path`;
      new ErrorReporter(this.onError).report(new RecipeConflictError(message, { key }));
    }
    this.conflictReported = others > 0;
    return items;
  };
}

/** Returns the part of a name that orders items by priority. Curator's priorityToString. */
function priorityPrefix(priority: number): string {
  // As an unsigned number, behind a digit that sorts the negative ones first.
  const hex = (priority >>> 0).toString(16).toUpperCase().padStart(8, '0');
  return `${priority < 0 ? 0 : 1}${hex}`;
}
