import { CoordinationError, type CoordinationErrorOptions } from '../../client/index.js';

/**
 * The new value of a counter would not fit into a signed 64-bit integer. The counter is unchanged. Curator's
 * DistributedAtomicLong continues with the smallest integer.
 * Cause: the counter is near 2^63 - 1 or -2^63, or `delta` is very large.
 * Remedy: read the counter with `get()`, find the caller that added too much, and correct the value with `forceSet()`.
 *
 * @publicApi
 */
export class CounterOverflowError extends CoordinationError {
  readonly code = 'COUNTER_OVERFLOW';
}

/**
 * The queue had `maxItems` items during the whole wait of a put. The item was not put.
 * Cause: the consumers are slower than the producers, or no consumer runs.
 * Remedy: put the item again later, pass a longer `wait`, or add consumers.
 *
 * @publicApi
 */
export class QueueFullError extends CoordinationError {
  readonly code = 'QUEUE_FULL';
}

/**
 * A consumer could not finish an item. It is passed to `onError` and not thrown; `cause` is the error of the handler, if
 * it threw one.
 * Cause: the handler threw an error, the lock of the item was lost while the handler ran, the item could not be deleted,
 * the consumer was closed and the item was not finished within `stopTimeout`, or the data is not that of a queue item.
 * Remedy: correct the handler. The item is handled again, unless the error mode is `'delete'` or the data is
 * unreadable: delete a znode with unreadable data.
 *
 * @publicApi
 */
export class QueueItemError extends CoordinationError {
  readonly code = 'QUEUE_ITEM';

  constructor(
    message: string,
    /** The name of the znode of the item. */
    readonly item: string,
    options: CoordinationErrorOptions,
  ) {
    super(message, options);
  }
}

/**
 * Another session has a member of this id in the group. The member waits until that znode is deleted, and joins then.
 * Cause: two processes have the same id, or a process was restarted and the session of its predecessor has not expired
 * yet.
 * Remedy: give each process an id of its own. After a restart, none: the znode of the predecessor is deleted when its
 * session expires.
 *
 * @publicApi
 */
export class MemberIdTakenError extends CoordinationError {
  readonly code = 'MEMBER_ID_TAKEN';
}

/**
 * The reason of the signal of a partition that its owner releases: the partition was assigned to another member, or the
 * owner leaves the group.
 * Cause: a member joined or left, so that the partition was assigned to another one, or this member was closed.
 * Remedy: stop the work on the partition. The next owner begins when the handler has settled.
 *
 * @publicApi
 */
export class PartitionReleasedError extends CoordinationError {
  readonly code = 'PARTITION_RELEASED';
}

/**
 * A process has another number of partitions than the members that are alive. It does not join while they are.
 * Cause: the option `partitions` differs between two versions of an application that run at the same time.
 * Remedy: stop all processes before you change the number, or use another name.
 *
 * @publicApi
 */
export class PartitionCountError extends CoordinationError {
  readonly code = 'PARTITION_COUNT';
}
