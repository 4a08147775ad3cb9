import type { ZkClient } from '../../client/index.js';
import type { AcquireOptions } from '../lease.js';
import type { Recipe } from '../types.js';
import type { Grant } from './grant.js';
import { holderData } from './holder-data.js';
import { withLingerMark } from './linger-mark.js';
import { findLocalQueue, LocalQueue, type LocalQueueSpec } from './local-queue.js';
import { type QueueNames, type QueueNode, queueOf } from './node-names.js';
import { waitInQueue } from './queue.js';
import type { Request, Wanted } from './waiter.js';

/** A lock whose callers wait in one queue of znodes: a mutex, a read lock or a write lock. */
interface QueuedLock extends Wanted {
  readonly client: ZkClient;
  readonly path: string;
  readonly recipe: Recipe;
}

/**
 * Acquires a lock through the queue of this process, or by a znode of its own if `fairness` is `'strict'`.
 *
 * @param isContender whether a znode makes the callers of this process give way; default: all but our own. With it,
 *   callers hold the lock at the same time
 */
export function acquireQueued(
  lock: QueuedLock,
  names: QueueNames,
  options: AcquireOptions,
  isContender?: (node: QueueNode) => boolean,
): Promise<Grant> | Grant {
  if (options.fairness === 'strict') {
    const queue = new LocalQueue(specOf(lock, names, isContender));
    return queue.acquire(requestOf(lock, { ...options, linger: 0 }));
  }
  const queue = findLocalQueue(lock, () => specOf(lock, names, isContender));
  return queue.acquire(requestOf(lock, options));
}

function requestOf(
  wanted: Wanted,
  { wait = Infinity, signal, details, linger = 0, onDeadlock }: AcquireOptions,
): Request {
  const plain = holderData(details);
  const data = linger > 0 ? withLingerMark(plain) : plain;
  return { wanted, wait, signal, data, linger, count: 1, onDeadlock };
}

function specOf(
  { client, path, recipe }: QueuedLock,
  names: QueueNames,
  isContender: ((node: QueueNode) => boolean) | undefined,
): LocalQueueSpec {
  const own = { ...names, parent: path };
  return {
    client,
    path,
    recipe,
    directory: path,
    shared: isContender !== undefined,
    hasContenders: (children) => {
      const queue = queueOf(own, children);
      return isContender ? queue.some(isContender) : queue.length > 1;
    },
    acquire: (first, options) => waitInQueue(client, { ...own, data: first.request.data }, options),
  };
}
