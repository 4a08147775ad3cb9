import { BadOptionError } from '../../client/index.js';
import type { WaitOptions } from './internals/wait-limit.js';
import { QueueBase } from './queue-base.js';

const MIN_INTEGER = -(2 ** 31);
const MAX_INTEGER = 2 ** 31 - 1;

/**
 * A queue whose items are handled in the order of their priorities, and of their puts within a priority. The same znodes
 * as Curator's DistributedPriorityQueue with a `lockPath`. Each consumer lists the queue again before each item, if the
 * queue has changed.
 *
 * @publicApi
 */
export class DistributedPriorityQueue<T = Buffer> extends QueueBase<T> {
  protected readonly prioritized = true;

  /**
   * Puts an item, as `put` of {@link DistributedQueue} does.
   *
   * @param priority an integer of 32 bits; items with a lower one are handled first
   */
  put(item: T, priority: number, options: WaitOptions = {}): Promise<string> {
    return this.putMulti([item], priority, options);
  }

  /** As {@link put} for several items in one znode: one consumer handles them one after the other. Curator's MultiItem. */
  async putMulti(
    items: readonly T[],
    priority: number,
    options: WaitOptions = {},
  ): Promise<string> {
    return this.putItems(priorityPrefix(priority), items, options);
  }
}

/** Returns the part of a name that orders items by priority. Curator's priorityToString. */
function priorityPrefix(priority: number): string {
  if (!Number.isInteger(priority) || priority < MIN_INTEGER || priority > MAX_INTEGER) {
    throw new BadOptionError(
      'priority',
      priority,
      `an integer from ${MIN_INTEGER} to ${MAX_INTEGER}`,
    );
  }
  // As an unsigned number, behind a digit that sorts the negative ones first.
  const hex = (priority >>> 0).toString(16).toUpperCase().padStart(8, '0');
  return `${priority < 0 ? 0 : 1}${hex}`;
}
