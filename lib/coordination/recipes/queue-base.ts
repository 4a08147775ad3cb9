import { randomUUID } from 'node:crypto';
import {
  BadOptionError,
  ConnectionError,
  ShuttingDownError,
  WaitCancelledError,
  type ZkClient,
} from '../../client/index.js';
import { warn } from '../../client/listeners.js';
import { MAX_TIMER, sleep } from '../../client/sleep.js';
import {
  checkBelowRoot,
  checkFunction,
  checkOptions,
  checkPath,
  isRecord,
} from '../../client/validation.js';
import { SequenceExhaustedError } from '../../recipes/errors.js';
import { checkAcquire, WAIT_OPTIONS } from '../../recipes/lease.js';
import { ITEM_PREFIX } from './internals/free-items.js';
import { isNodeError } from './internals/nodes.js';
import {
  BYTES,
  decodeItems,
  encodeItems,
  type QueueSerializer,
  serializeItem,
} from './internals/queue-items.js';
import type { ConsumeOptions, ConsumerHandle, QueueHandler } from './consume-options.js';
import { ConsumerLoop } from './consumer-loop.js';
import { QueueFullError } from './errors.js';

/**
 * The options of a queue. All users of a queue must have the same `lockPath` and serializers that understand each other.
 *
 * @publicApi
 */
export interface QueueOptions<T> {
  /** The parent znode of the locks of the items. Curator's `QueueBuilder.lockPath`. Default: the path and `-locks`. */
  lockPath?: string | undefined;
  /**
   * The number of znodes from which a put waits. Producers that put at the same time may exceed it. Curator's
   * `QueueBuilder.maxItems`. Default: no limit.
   */
  maxItems?: number | undefined;
  /** Converts items to bytes and back. Default: the items are Buffers. */
  serializer?: QueueSerializer<T> | undefined;
  /** Called with the errors of consumers, see {@link ConsumeOptions.onError}. Default: a process warning. */
  onError?: ((error: Error) => void) | undefined;
}

const OPTIONS = [
  'lockPath',
  'maxItems',
  'serializer',
  'onError',
] satisfies (keyof QueueOptions<unknown>)[];

/**
 * The options of a put.
 *
 * @publicApi
 */
export interface PutOptions {
  /** Milliseconds to wait while the queue has `maxItems` items; 0 for not at all. Default Infinity. */
  wait?: number | undefined;
  /** Cancels that wait with a {@link WaitCancelledError}. Default: none. */
  signal?: AbortSignal | undefined;
}

/** The number of items whose data a producer reads at once to find out whether a put was applied. */
const READ_AT_ONCE = 64;

/**
 * The base of {@link DistributedQueue} and {@link DistributedPriorityQueue}. Curator's QueueBase.
 *
 * @publicApi
 */
export abstract class QueueBase<T> {
  /** The parent znode of the locks of the items. */
  readonly lockPath: string;
  readonly maxItems: number;
  protected abstract readonly prioritized: boolean;
  private readonly serializer: QueueSerializer<T>;
  private readonly onError: (error: Error) => void;
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
    checkOptions(options, OPTIONS);
    const { lockPath = `${path}-locks`, maxItems = Infinity, serializer, onError = warn } = options;
    if (checkPath(lockPath, 'lockPath') === path || lockPath === '/') {
      const expected = 'a znode below the root, and not the path of the items';
      throw new BadOptionError('lockPath', lockPath, expected);
    }
    if (maxItems !== Infinity && !(Number.isSafeInteger(maxItems) && maxItems > 0)) {
      throw new BadOptionError('maxItems', maxItems, 'a whole number of 1 or more, or Infinity');
    }
    if (serializer !== undefined) {
      if (!isRecord(serializer)) throw new BadOptionError('serializer', serializer, 'an object');
      checkFunction(serializer.serialize, 'serializer.serialize');
      checkFunction(serializer.deserialize, 'serializer.deserialize');
    }
    checkFunction(onError, 'onError');
    this.onError = onError;
    this.lockPath = lockPath;
    this.maxItems = maxItems;
    this.serializer = serializer ?? (BYTES as QueueSerializer<unknown> as QueueSerializer<T>);
  }

  /** Reads the number of znodes in the queue. Items that were put together share one. Curator's getLastMessageCount. */
  async size(): Promise<number> {
    return (await this.client.exists(this.path))?.numChildren ?? 0;
  }

  /**
   * Starts a consumer, which handles each item while it holds the lock of the item. A crashed consumer loses its locks with
   * its session, and another consumer handles its items: an item is handled at least once.
   *
   * @throws BadOptionError; ShuttingDownError if the queue was closed
   */
  consume(handler: QueueHandler<T>, options: ConsumeOptions = {}): ConsumerHandle {
    this.assertOpen();
    const { client, path, lockPath, serializer, onError, prioritized } = this;
    const ensurePaths = () => this.ensurePaths();
    const queue = { client, path, lockPath, serializer, onError, prioritized, ensurePaths };
    const consumer: ConsumerLoop<T> = new ConsumerLoop(queue, handler, options, () =>
      this.consumers.delete(consumer),
    );
    this.consumers.add(consumer);
    return consumer;
  }

  /**
   * Closes the consumers, rejects puts that wait for space, and waits for puts that were sent. Later calls reject with a
   * ShuttingDownError. The client stays open. Idempotent. Curator's close with its `flushPuts`.
   */
  async close(): Promise<void> {
    this.closing.abort();
    const closed = [...this.consumers].map((consumer) => consumer.close());
    await Promise.allSettled([...closed, ...this.puts]);
  }

  /** Puts items into one znode. Resolves to its name. */
  protected async putItems(
    prefix: string,
    items: readonly T[],
    options: PutOptions,
  ): Promise<string> {
    this.assertOpen();
    checkAcquire(options, WAIT_OPTIONS);
    if (!Array.isArray(items) || items.length === 0) {
      throw new BadOptionError('items', items, 'an array of at least one item');
    }
    const id = Buffer.from(randomUUID().replaceAll('-', ''), 'hex');
    const stored = items.map((item: T) => serializeItem(this.serializer, item));
    const data = encodeItems({ items: stored, id, attempts: 0 });
    const put = this.waitForSpace(options).then(() => this.create(ITEM_PREFIX + prefix, data, id));
    this.puts.add(put);
    try {
      return await put;
    } finally {
      this.puts.delete(put);
    }
  }

  private assertOpen(): void {
    if (!this.closing.signal.aborted) return;
    throw new ShuttingDownError(`the queue ${this.path} was closed`, { key: this.path });
  }

  /**
   * Creates the znode of a put. The name of an item has no room for a unique id, because Curator requires a prefix and
   * sorts by the rest. The id is in the data instead. After a lost reply the put was applied if an item has the id. If none
   * has it, the put was not applied, or a consumer has handled the item already, and the caller must decide.
   */
  private async create(prefix: string, data: Buffer, id: Buffer): Promise<string> {
    for (;;) {
      try {
        const mode = 'persistent-sequential';
        const created = await this.client.create(`${this.path}/${prefix}`, data, { mode });
        return created.slice(this.path.length + 1);
      } catch (error) {
        if (isNodeError(error, 'NO_NODE')) {
          await this.ensurePaths();
        } else if (isNodeError(error, 'NODE_EXISTS')) {
          throw new SequenceExhaustedError(
            `the sequence numbers under ${this.path} are used up: delete it while it is empty and nobody uses it, or use another path`,
            { key: this.path },
          );
        } else if (error instanceof ConnectionError && error.maybeApplied) {
          return this.find(id, error);
        } else {
          throw error;
        }
      }
    }
  }

  /** Finds the item with an id. Rejects if there is none. */
  private async find(id: Buffer, cause: Error): Promise<string> {
    let reason = cause;
    try {
      await this.client.sync(this.path);
      const { children } = await this.client.children(this.path);
      // The item is probably one of the last.
      const names = children
        .filter((name) => name.startsWith(ITEM_PREFIX))
        .sort()
        .toReversed();
      while (names.length > 0) {
        const some = names.splice(0, READ_AT_ONCE);
        const found = await Promise.all(some.map((name) => this.hasId(name, id)));
        if (found.includes(true)) return some[found.indexOf(true)]!;
      }
    } catch (error) {
      reason = error as Error;
    }
    throw new ConnectionError(
      `the reply to a put was lost, and the item is not in the queue ${this.path}: it was not put, or a consumer has handled it already`,
      { key: this.path, maybeApplied: true, cause: reason },
    );
  }

  private async hasId(name: string, id: Buffer): Promise<boolean> {
    const path = `${this.path}/${name}`;
    try {
      const { data } = await this.client.get(path);
      return decodeItems(data, path).id.equals(id);
    } catch (error) {
      if (error instanceof ConnectionError || error instanceof ShuttingDownError) throw error;
      // It is gone, or it is no item.
      return false;
    }
  }

  private async waitForSpace({ wait = Infinity, signal }: PutOptions): Promise<void> {
    if (this.maxItems === Infinity || (await this.size()) < this.maxItems) return;
    const deadline = performance.now() + wait;
    for (;;) {
      const { children, watch } = await this.client.watchChildren(this.path);
      const left = Math.min(deadline - performance.now(), MAX_TIMER);
      try {
        if (children.length < this.maxItems) return;
        if (left <= 0) {
          const message = `the queue ${this.path} has had ${this.maxItems} items for ${wait} ms`;
          throw new QueueFullError(message, { key: this.path });
        }
        const until = (wake: () => void) => {
          void watch.fired.then(wake);
          return () => watch.remove();
        };
        await sleep(left, { signals: [signal, this.closing.signal], until, ref: true });
      } catch (error) {
        this.assertOpen();
        if (!signal?.aborted) throw error;
        throw new WaitCancelledError(`the wait for space in the queue ${this.path} was cancelled`, {
          key: this.path,
          cause: signal.reason,
        });
      } finally {
        watch.remove();
      }
    }
  }

  /** Creates the missing znodes as Curator does: they are persistent, and their parents are containers. */
  private async ensurePaths(): Promise<void> {
    for (const path of [this.path, this.lockPath]) {
      await this.client.ensureContainers(path, { persistent: true });
    }
  }
}
