import {
  checkFunction,
  ConnectionError,
  isAbortBy,
  isCode,
  MAX_TIMER,
  onAbort,
  type Session,
  ShuttingDownError,
  sleep,
  type Stat,
  textOf,
  whenSettled,
  type ZkClient,
} from '../../client/index.js';
import {
  DelayedWatches,
  ErrorReporter,
  isConnectionLoss,
  retryInSession,
  SessionLoop,
} from '../../kernel/index.js';
import {
  checkConsume,
  type ConsumeOptions,
  type ConsumerHandle,
  type QueueHandler,
  type QueueItemContext,
} from './consume-options.js';
import { FreeItems, type ListedQueue } from './internals/free-items.js';
import { ItemLock } from './internals/item-lock.js';
import { decodeItems, encodeItems, type QueueSerializer } from './internals/queue-items.js';
import { backOff, RefusedRequests } from './internals/refused-requests.js';
import { synchronous } from './internals/synchronous.js';
import { QueueItemError } from './errors.js';

/*
 * Consumer of a queue (Curator's DistributedQueue with a lockPath):
 *
 * 1. List the items and the locks. Take the first item without a lock. If another consumer was faster, take a random one
 *    of the first few next time, so that consumers do not all try the same item.
 * 2. Create the lock of the item. Read the item; if it is gone, another consumer has handled it.
 * 3. Call the handler. Delete the item and the lock in one transaction; where that fails, the item and then the lock.
 * 4. Without a free item, watch the list of items and the locks of the others: the lock of a consumer that crashed goes
 *    with its session.
 *
 * After an error of the handler, the item keeps its place, its number of failed attempts is stored, and its lock is
 * released. Each consumer waits for a delay after its first read of the new number before it handles the item again.
 */

/** The queue of a consumer. */
interface ConsumedQueue<T> extends ListedQueue {
  readonly client: ZkClient;
  readonly serializer: QueueSerializer<T>;
  onError(error: Error): void;
}

/** `interrupted`: the lock was lost before the last item was handled. */
type Outcome = 'handled' | 'failed' | 'interrupted';

/** A consumer waits longer for an item that it failed itself, so that another consumer tries the item first. */
const OWN_FAILURE = 1.5;

/** A consumer of a queue. */
export class ConsumerLoop<T> implements ConsumerHandle {
  /** The names of the items that this consumer handles, or does not handle again before a delay has ended. */
  private readonly busy = new Map<string, Promise<void>>();
  /** The locks of the items whose handlers run. */
  private readonly handling = new Set<ItemLock>();
  private readonly items: FreeItems;
  private readonly delayedWatches = new DelayedWatches();
  private readonly options: Required<Omit<ConsumeOptions, 'signal'>>;
  private readonly loop: SessionLoop;
  /** The number of items that are handled, out of `concurrency`. */
  private usedSlots = 0;
  private readonly reporter: ErrorReporter;
  private readonly refused: RefusedRequests;
  private closed: Promise<void> | undefined;

  constructor(
    private readonly queue: ConsumedQueue<T>,
    private readonly handler: QueueHandler<T>,
    options: ConsumeOptions,
    private readonly onClosed: () => void,
  ) {
    checkFunction(handler, 'handler');
    this.options = checkConsume(options, queue.onError);
    this.reporter = new ErrorReporter(this.options.onError);
    const onPersistentLock = (name: string) => {
      const lock = `${queue.lockPath}/${name}`;
      this.report(name, 'is not handled', `its lock ${lock} is a persistent znode: delete it`);
    };
    this.items = new FreeItems(queue, (name) => this.busy.has(name), onPersistentLock);
    const take = (session: Session) => this.takeItems(session);
    this.loop = new SessionLoop(queue.client, take, (error) => {
      // The client reports the state of its connection.
      if (!(error instanceof ConnectionError)) this.reporter.reportOnce(error);
    });
    const { retryDelay } = this.options;
    this.refused = new RefusedRequests(queue.path, retryDelay, this.reporter, this.loop.signal);
    this.loop.start();
    const removeListener = onAbort(options.signal, () => void this.close());
    onAbort(this.loop.signal, () => {
      removeListener();
      this.items.close();
    });
  }

  close(): Promise<void> {
    return (this.closed ??= this.end().finally(this.onClosed));
  }

  private async end(): Promise<void> {
    const { stopTimeout } = this.options;
    const { path: key } = this.queue;
    const closed = new ShuttingDownError(`the consumer of the queue ${key} was closed`, { key });
    const settled = this.loop.close(closed).then(() => Promise.all(this.busy.values()));
    await sleep(stopTimeout, { until: whenSettled(settled), ref: true });
    const reason = new ShuttingDownError(`the consumer was closed ${stopTimeout} ms ago`, { key });
    // Items that were handled are deleted in the background with their locks, as long as the session lives.
    for (const name of this.busy.keys()) this.report(name, 'is not finished', reason);
    for (const lock of this.handling) {
      lock.lose(reason);
      lock.release().catch((error: unknown) => this.reporter.report(error));
    }
  }

  /** Takes items until the consumer stops or a request fails. */
  private async takeItems(session: Session): Promise<never> {
    const { signal } = this.loop;
    this.items.notify();
    for (;;) {
      signal.throwIfAborted();
      if (this.usedSlots >= this.options.concurrency) {
        await this.items.change();
        continue;
      }
      const name = await this.items.take(session);
      this.reporter.reset();
      if (name !== undefined && !signal.aborted) this.start(session, name);
    }
  }

  private start(session: Session, name: string): void {
    this.usedSlots++;
    let usesSlot = true;
    const freeSlot = () => {
      if (usesSlot) this.usedSlots--;
      usesSlot = false;
      this.items.notify();
    };
    const work = this.handle(session, name, freeSlot)
      .catch((error: unknown) => {
        this.report(name, 'could not be finished', error);
        return this.errorDelay(name);
      })
      .then((delay) => {
        freeSlot();
        if (delay === 0) return;
        // It rejects only when the consumer stops.
        return sleep(delay, { signals: [this.loop.signal] }).catch(() => {});
      })
      .finally(() => {
        this.busy.delete(name);
        this.items.notify();
      });
    this.busy.set(name, work);
  }

  /** Resolves to the milliseconds in which this consumer does not take the item again. */
  private async handle(session: Session, name: string, freeSlot: () => void): Promise<number> {
    const lock = await this.lock(session, name);
    if (!lock) return 0;
    try {
      return await this.handleLocked(session, name, lock, freeSlot);
    } finally {
      const released = lock.release();
      freeSlot();
      await released;
    }
  }

  private async lock(session: Session, name: string): Promise<ItemLock | undefined> {
    const { client, path, lockPath } = this.queue;
    const paths = { lock: `${lockPath}/${name}`, item: `${path}/${name}` };
    try {
      const acquire = () => ItemLock.acquire(client, session, paths);
      const lock = await this.refused.repeat(lockPath, acquire);
      if (lock) return lock;
      this.items.onContended(name);
    } catch (error) {
      if (isCode(error, 'NO_NODE')) await this.queue.ensurePaths();
      else if (!isConnectionLoss(error) && !(error instanceof ShuttingDownError)) throw error;
    }
    return undefined;
  }

  /** As {@link handle} with the lock of the item. */
  private async handleLocked(
    session: Session,
    name: string,
    lock: ItemLock,
    freeSlot: () => void,
  ): Promise<number> {
    const { client } = this.queue;
    const { item: path } = lock.paths;
    const node = await lock.readItem();
    if (node) this.items.onAcquired();
    else this.items.onContended(name);
    // close() does not wait for a handler that starts after its timeout.
    if (!node || this.loop.signal.aborted) return 0;
    const stored = this.decode(node, path, name);
    if (!stored) return this.errorDelay(name);
    if (stored.attempts > 0 && stored.attempts !== this.items.memory(name).failedAttempts) {
      return this.onFailed(name, stored.attempts);
    }
    const attempt = stored.attempts + 1;
    const context = Object.freeze({
      name,
      attempt,
      signal: lock.signal,
      get held() {
        return lock.held;
      },
    });
    this.handling.add(lock);
    this.delayedWatches.add(lock);
    const outcome = await this.callHandler(stored.values, context);
    this.delayedWatches.delete(lock);
    this.handling.delete(lock);
    // With the policy 'standard', a suspended connection ends the lease and not the lock.
    const isOwner = lock.held || (outcome === 'handled' && (await lock.stillExists()));
    if (!isOwner) {
      this.report(name, `lost its lock in attempt ${attempt}`, lock.signal.reason);
      return 0;
    }
    if (outcome === 'handled') {
      const remove = () => lock.deleteItem(node.stat);
      await this.refused.repeat(this.queue.path, remove, (error) => {
        this.report(name, 'was handled and cannot be deleted', error);
        freeSlot();
      });
      return 0;
    }
    const data = encodeItems({ ...stored, attempts: attempt });
    await retryInSession(client, session, () => session.set(path, data, node.stat.version));
    return Math.min(this.onFailed(name, attempt) * OWN_FAILURE, MAX_TIMER);
  }

  /** Returns the milliseconds to wait after a failed attempt of this or another consumer. */
  private onFailed(name: string, attempt: number): number {
    this.items.memory(name).failedAttempts = attempt;
    return backOff(this.options.retryDelay, attempt);
  }

  /** Returns the milliseconds to wait after an error that is not that of a handler. */
  private errorDelay(name: string): number {
    return backOff(this.options.retryDelay, ++this.items.memory(name).errors);
  }

  /** Calls the handler with each item of a znode. */
  private async callHandler(items: readonly T[], context: QueueItemContext): Promise<Outcome> {
    const { errorMode } = this.options;
    for (const item of items) {
      if (!context.held) return 'interrupted';
      try {
        await this.handler(item, context);
      } catch (error) {
        if (isAbortBy(context.signal, error)) return 'interrupted';
        const what = `failed in attempt ${context.attempt} (error mode ${errorMode})`;
        this.report(context.name, what, error);
        if (!context.held) return 'interrupted';
        if (errorMode === 'requeue') return 'failed';
      }
    }
    return 'handled';
  }

  /** Reads the items of a znode; undefined if they are unreadable. */
  private decode({ data, stat }: { data: Buffer; stat: Stat }, path: string, name: string) {
    const { serializer } = this.queue;
    try {
      const stored = decodeItems(data, path);
      const values = stored.items.map((item) =>
        synchronous(serializer.deserialize(item), 'serializer.deserialize'),
      );
      return { ...stored, values };
    } catch (error) {
      const memory = this.items.memory(name);
      if (memory.unreadable !== stat.mzxid) {
        this.report(name, 'is unreadable and stays in the queue', error);
      }
      memory.unreadable = stat.mzxid;
      return undefined;
    }
  }

  private report(item: string, what: string, cause: unknown): void {
    const { path } = this.queue;
    const message = `item ${item} of the queue ${path} ${what}: ${textOf(cause)}`;
    this.reporter.report(new QueueItemError(message, item, { key: path, cause }));
  }
}
