import type { ZkClient } from '../client/index.js';
import { reentrantGrant } from '../kernel/call-chain.js';
import type { Grant } from '../kernel/grant.js';
import { MUTEX_NAMES } from '../kernel/node-names.js';
import { type QueueEntry, readQueue } from '../kernel/participants.js';
import { acquireQueued } from '../kernel/local-queue.js';
import type { AcquireOptions } from '../kernel/lease.js';
import { Lock, type LockConstructorOptions } from './lock.js';

/*
 * Mutex (Curator's InterProcessMutex):
 *
 *   1. Create an ephemeral sequential znode `_c_<uuid>-lock-` under the path, and list the children of the path.
 *   2. The znode with the lowest sequence number holds the lock.
 *   3. All others watch the znode just ahead of their own, and list again when it is deleted.
 *   4. The holder releases the lock by deleting its znode.
 */

/**
 * An exclusive lock on the znode `path`, fair between processes and within this one. It shares the path with Curator's
 * `InterProcessMutex`. `withLock` and `enter` re-enter along the asynchronous call chain, as Curator does along the
 * thread.
 *
 * @publicApi
 */
export class Mutex extends Lock {
  constructor(client: ZkClient, path: string, options?: LockConstructorOptions) {
    super(client, path, 'mutex', options);
  }

  protected override heldByChain(): Grant | undefined {
    return reentrantGrant(this.client, this.path, 'mutex');
  }

  protected override take(options: AcquireOptions): Promise<Grant> | Grant {
    return acquireQueued(this, MUTEX_NAMES, options);
  }

  protected override async entries(): Promise<QueueEntry[]> {
    const { client, path: parent } = this;
    return (await readQueue(client, parent, MUTEX_NAMES.markers)).map((node, index) => ({
      node,
      parent,
      state: index === 0 ? 'holding' : 'waiting',
      mode: 'exclusive',
    }));
  }
}
