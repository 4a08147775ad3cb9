import type { WaitOptions } from './internals/wait-limit.js';
import { QueueBase } from './queue-base.js';

/**
 * A queue whose items are handled in the order of their puts. The same znodes as Curator's DistributedQueue with a
 * `lockPath`, so that processes with Curator can put and consume at the same time.
 *
 * For queues of up to a few hundred items: ZooKeeper keeps all items in memory, and each consumer lists their names.
 *
 * @publicApi
 */
export class DistributedQueue<T = Buffer> extends QueueBase<T> {
  protected readonly prioritized = false;

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
  put(item: T, options: WaitOptions = {}): Promise<string> {
    return this.putItems('', [item], options);
  }

  /** As {@link put} for several items in one znode: one consumer handles them one after the other. Curator's MultiItem. */
  putMulti(items: readonly T[], options: WaitOptions = {}): Promise<string> {
    return this.putItems('', items, options);
  }
}
