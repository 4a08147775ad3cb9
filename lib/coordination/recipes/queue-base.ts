import { randomUUID } from 'node:crypto';
import { setMaxListeners } from 'node:events';
import { BadOptionError, ShuttingDownError, type ZkClient } from '../../client/index.js';
import { foreignText } from '../../client/errors.js';
import { warn } from '../../client/listeners.js';
import { FUNCTION, rule, type Rules, UNCHECKED, wholeNumber } from '../../client/option-rules.js';
import {
  checkBelowRoot,
  checkFunction,
  checkOptions,
  isRecord,
  MAX_REQUEST,
} from '../../client/validation.js';
import { RecipeConflictError } from '../../recipes/errors.js';
import { childrenOf } from '../../recipes/internals/participants.js';
import { ErrorReporter } from './internals/error-reporter.js';
import {
  BYTES,
  encodeItems,
  ITEM_PREFIX,
  type QueueSerializer,
  serializeItem,
} from './internals/queue-items.js';
import { QueuePut } from './internals/queue-put.js';
import type { WaitOptions } from './internals/wait-limit.js';
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
  /** Converts items to bytes and back. Default: the items are Buffers. */
  serializer?: QueueSerializer<T> | undefined;
  /**
   * Called with the errors of consumers, see {@link ConsumeOptions.onError}, and with a RecipeConflictError if the queue has
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
  serializer: UNCHECKED,
  onError: FUNCTION,
};

/**
 * The base of {@link DistributedQueue} and {@link DistributedPriorityQueue}. Curator's QueueBase. An item is one value: the
 * znode of a put contains all items of the put.
 */
export abstract class QueueBase<T> {
  /** The parent znode of the locks of the items. */
  readonly lockPath: string;
  readonly maxItems: number;
  protected abstract readonly prioritized: boolean;
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

  /** Puts items into one znode. Resolves to its name. */
  protected async putItems(
    prefix: string,
    items: readonly T[],
    options: WaitOptions,
  ): Promise<string> {
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
    const put = new QueuePut(queue, ITEM_PREFIX + prefix, data, id);
    const result = put.run(options, this.closing.signal);
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
