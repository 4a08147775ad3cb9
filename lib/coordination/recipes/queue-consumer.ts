import { setMaxListeners } from 'node:events';
import {
  ConnectionError,
  type Session,
  SessionExpiredError,
  ShuttingDownError,
  type ZkClient,
} from '../../client/index.js';
import { sleep } from '../../client/sleep.js';
import { checkFunction } from '../../client/validation.js';
import { runDetached } from '../../recipes/internals/call-chain.js';
import { DelayedWatches } from '../../recipes/internals/delayed-watches.js';
import {
  checkConsume,
  type ConsumeOptions,
  type ConsumerHandle,
  type QueueHandler,
  type QueueItem,
} from './consume-options.js';
import { ErrorReporter } from './internals/error-reporter.js';
import { FreeItems, type ListedQueue } from './internals/free-items.js';
import { ItemLock } from './internals/item-lock.js';
import { deleteItem, inSession } from './internals/item-requests.js';
import { isNodeError } from './internals/nodes.js';
import { decodeItems, encodeItems, type QueueSerializer } from './internals/queue-items.js';
import { QueueItemError } from './errors.js';

/*
 * Consumer of a queue (Curator's DistributedQueue with a lockPath):
 *
 * 1. List the items and the locks. Take the first item without a lock. If another consumer was faster, take a random one
 *    of the first few next time, so that consumers do not all try the same item.
 * 2. Create the lock of the item. Read the item; if it is gone, another consumer has handled it.
 * 3. Call the handler. Delete the item, and when that is confirmed, the lock.
 * 4. Without a free item, watch the list of items and the locks of the others: the lock of a consumer that crashed goes
 *    with its session.
 *
 * After an error of the handler, the item keeps its place and its lock during a delay, and other items are handled.
 */

/** The queue of a consumer. */
export interface ConsumedQueue<T> extends ListedQueue {
  readonly client: ZkClient;
  readonly serializer: QueueSerializer<T>;
  onError(error: Error): void;
}

/** Milliseconds between a failure to list the queue and the next attempt. */
const RETRY_AFTER = 1000;
/** Milliseconds. */
const MAX_RETRY_DELAY = 60_000;

/** A consumer of a queue. */
export class QueueConsumer<T> implements ConsumerHandle {
  private readonly stopping = new AbortController();
  /** The names of the items that this consumer handles or will retry. */
  private readonly busy = new Map<string, Promise<void>>();
  private readonly locks = new Set<ItemLock>();
  /** The names of the items whose data this consumer cannot read. */
  private readonly unreadable = new Set<string>();
  private readonly items: FreeItems;
  private readonly delayedWatches = new DelayedWatches();
  private readonly options: Required<Omit<ConsumeOptions, 'signal'>>;
  private readonly loop: Promise<void>;
  /** The number of handlers that run. */
  private running = 0;
  private readonly reporter: ErrorReporter;
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
    this.items = new FreeItems(queue, (name) => this.busy.has(name) || this.unreadable.has(name));
    const { signal } = options;
    setMaxListeners(0, this.stopping.signal);
    const onAbort = () => void this.close();
    signal?.addEventListener('abort', onAbort, { once: true });
    this.stopping.signal.addEventListener('abort', () => {
      signal?.removeEventListener('abort', onAbort);
      this.items.notify();
    });
    // The loop outlives the caller and must not count as a holder of the caller's locks.
    this.loop = runDetached(() => this.run());
    if (signal?.aborted) onAbort();
  }

  close(): Promise<void> {
    return (this.closed ??= this.end().finally(this.onClosed));
  }

  private async end(): Promise<void> {
    const { closeTimeout } = this.options;
    this.stopping.abort();
    const settled = this.loop.then(() => Promise.all(this.busy.values()));
    const over = new AbortController();
    void settled.then(() => over.abort());
    await sleep(closeTimeout, { signals: [over.signal], ref: true }).catch(() => {});
    if (over.signal.aborted) return;
    const locks = [...this.locks];
    const reason = new ShuttingDownError(`the handler has not ended within ${closeTimeout} ms`);
    for (const lock of locks) lock.lose(reason);
    await Promise.allSettled(locks.map((lock) => lock.release()));
  }

  private get stopped(): boolean {
    return this.stopping.signal.aborted;
  }

  private async run(): Promise<void> {
    const { client } = this.queue;
    const { signal } = this.stopping;
    while (!this.stopped) {
      try {
        const session = await client.session({ signal });
        await this.takeItems(session);
      } catch (error) {
        if (this.stopped || error instanceof ShuttingDownError) break;
        const isLoss = error instanceof ConnectionError || error instanceof SessionExpiredError;
        // The client reports the state of its connection.
        if (!isLoss) this.reporter.reportOnce(error);
        else if (client.connected) continue;
        const until = (wake: () => void) => client.onState(wake);
        await sleep(RETRY_AFTER, { signals: [signal], until }).catch(() => {});
      }
    }
    this.items.unwatch();
  }

  /** Takes items until the consumer stops or a request fails. */
  private async takeItems(session: Session): Promise<void> {
    this.items.notify();
    while (!this.stopped) {
      if (this.running >= this.options.concurrency) {
        await this.items.change();
        continue;
      }
      const name = await this.items.take(session);
      this.reporter.reset();
      if (name !== undefined && !this.stopped) this.start(session, name);
    }
  }

  private start(session: Session, name: string): void {
    this.running++;
    let runs = true;
    const leave = () => {
      if (runs) this.running--;
      runs = false;
      this.items.notify();
    };
    const work = this.handle(session, name, leave)
      .catch((error: unknown) => {
        this.report(name, 'could not be finished', error);
        leave();
        // For example, the ACL of the queue denies the deletion. At once, the same would happen again.
        return this.pause(this.options.retryDelay);
      })
      .finally(() => {
        this.busy.delete(name);
        leave();
      });
    this.busy.set(name, work);
  }

  /** @param leave makes room for the next item */
  private async handle(session: Session, name: string, leave: () => void): Promise<void> {
    const lock = await this.lock(session, name);
    if (!lock) return;
    this.locks.add(lock);
    this.delayedWatches.add(lock);
    try {
      // A close after its timeout does not know of this lock.
      if (!this.stopped) await this.handleLocked(session, name, lock, leave);
    } finally {
      this.delayedWatches.delete(lock);
      const released = lock.release();
      leave();
      await released;
      this.locks.delete(lock);
    }
  }

  private async lock(session: Session, name: string): Promise<ItemLock | undefined> {
    const { client, lockPath } = this.queue;
    try {
      const lock = await ItemLock.acquire(client, session, `${lockPath}/${name}`);
      if (lock) return lock;
      this.items.onOutrun(name);
    } catch (error) {
      if (isNodeError(error, 'NO_NODE')) await this.queue.ensurePaths();
      else if (!isConnectionLoss(error)) throw error;
    }
    return undefined;
  }

  private async handleLocked(
    session: Session,
    name: string,
    lock: ItemLock,
    leave: () => void,
  ): Promise<void> {
    const { client } = this.queue;
    const path = `${this.queue.path}/${name}`;
    const node = await inSession(client, session, () => session.get(path));
    if (!node) return this.items.onOutrun(name);
    this.items.onWon();
    const stored = this.decode(node.data, path, name);
    if (!stored) return;
    const attempt = stored.attempts + 1;
    const context = Object.freeze({
      name,
      attempt,
      signal: lock.signal,
      get held() {
        return lock.held;
      },
    });
    const failures = await this.callHandler(stored.values, context);
    if (!lock.held) {
      return this.report(name, `lost its lock in attempt ${attempt}`, lock.signal.reason);
    }
    if (failures > 0 && this.options.errorMode === 'requeue') {
      const data = encodeItems({ ...stored, attempts: attempt });
      await inSession(client, session, () => session.set(path, data, node.stat.version));
      leave();
      const delay = Math.min(this.options.retryDelay * 2 ** (attempt - 1), MAX_RETRY_DELAY);
      return this.pause(delay, lock.signal);
    }
    await deleteItem(client, session, path, node.stat);
  }

  /** Resolves after a delay, with the signal or when the consumer stops. */
  private pause(delay: number, signal?: AbortSignal): Promise<void> {
    return sleep(delay, { signals: [this.stopping.signal, signal] }).catch(() => {});
  }

  /** Calls the handler with each item of a znode. Returns the number of calls that failed. */
  private async callHandler(items: readonly T[], context: QueueItem): Promise<number> {
    const { errorMode } = this.options;
    let failures = 0;
    for (const item of items) {
      if (!context.held) break;
      try {
        await this.handler(item, context);
      } catch (error) {
        failures++;
        const what = `failed in attempt ${context.attempt} (error mode ${errorMode})`;
        this.report(context.name, what, error);
        if (errorMode === 'requeue') break;
      }
    }
    return failures;
  }

  /** Reads the items of a znode; undefined if they are unreadable. */
  private decode(data: Buffer, path: string, name: string) {
    try {
      const stored = decodeItems(data, path);
      const values = stored.items.map((item) => this.queue.serializer.deserialize(item));
      return { ...stored, values };
    } catch (error) {
      this.unreadable.add(name);
      this.report(name, 'is unreadable and stays in the queue', error);
      return undefined;
    }
  }

  private report(item: string, what: string, cause: unknown): void {
    const { path } = this.queue;
    const message = `item ${item} of the queue ${path} ${what}: ${String(cause)}`;
    this.reporter.report(new QueueItemError(message, item, { key: path, cause }));
  }
}

function isConnectionLoss(error: unknown): boolean {
  return (
    error instanceof ConnectionError ||
    error instanceof SessionExpiredError ||
    error instanceof ShuttingDownError
  );
}
