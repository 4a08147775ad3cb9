import type { ZkClient } from '../client/index.js';
import type { AcquireOptions } from './lease.js';
import type { Recipe } from './types.js';
import type { Grant } from './grant.js';
import {
  type AcquireContext,
  findLocalQueue,
  LocalQueue,
  type LocalQueueSpec,
} from './local-queue.js';
import { DEFAULT_HOLDER_DATA, holderData, withLingerMark } from './node-data.js';
import { type QueueNames, type QueueNode, queueOf, type QueueSpec } from './node-names.js';
import { type QueuePosition, waitInQueue } from './queue.js';
import type { Waiter, Wanted } from './waiter.js';

/** A lock whose callers wait in one queue of znodes: a mutex, a read lock or a write lock. */
interface QueuedLock extends Wanted {
  readonly client: ZkClient;
  readonly path: string;
  readonly recipe: Recipe;
}

/**
 * Acquires a lock through the queue of this process, or by a znode of its own if `fairness` is `'strict'`.
 *
 * @param isContender makes the lock shared: the callers of this process hold it together, and no more of them join while
 *   the queue has a znode for which this returns true. Default: one caller holds the lock at a time, and any znode
 *   besides our own is a contender
 */
export function acquireQueued(
  lock: QueuedLock,
  names: QueueNames,
  options: AcquireOptions,
  isContender?: (node: QueueNode) => boolean,
): Promise<Grant> | Grant {
  const { wait = Infinity, signal, details, fairness } = options;
  const strict = fairness === 'strict';
  const linger = strict ? 0 : (options.linger ?? 0);
  const plain = details === undefined ? DEFAULT_HOLDER_DATA : holderData(details);
  const data = linger > 0 ? withLingerMark(plain) : plain;
  const queue = strict
    ? new LocalQueue(new QueuedSpec(lock, names, isContender))
    : findLocalQueue(lock, () => new QueuedSpec(lock, names, isContender));
  return queue.acquire({ wanted: lock, wait, signal, data, linger, count: 1 });
}

/** The queue of znodes of a mutex, a read lock or a write lock. */
class QueuedSpec implements LocalQueueSpec, QueueSpec {
  readonly client: ZkClient;
  readonly path: string;
  readonly recipe: Recipe;
  readonly parent: string;
  readonly marker: string;
  readonly markers: readonly string[];
  readonly nodeAhead: QueueNames['nodeAhead'];

  constructor(
    { client, path, recipe }: QueuedLock,
    { marker, markers, nodeAhead }: QueueNames,
    private readonly isContender: ((node: QueueNode) => boolean) | undefined,
  ) {
    this.client = client;
    this.path = path;
    this.recipe = recipe;
    this.parent = path;
    this.marker = marker;
    this.markers = markers;
    this.nodeAhead = nodeAhead;
  }

  get queueParent(): string {
    return this.path;
  }

  get shared(): boolean {
    return this.isContender !== undefined;
  }

  get queue(): QueueSpec {
    return this;
  }

  hasContenders(children: readonly string[]): boolean {
    const queue = queueOf(this, children);
    return this.isContender ? queue.some(this.isContender) : queue.length > 1;
  }

  acquire(first: Waiter<Grant>, context: AcquireContext): Promise<QueuePosition> {
    return waitInQueue(this.client, this, { ...context, data: first.request.data });
  }
}
