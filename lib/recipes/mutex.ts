import { reentryInChain } from './internals/call-chain.js';
import type { Grant } from './internals/grant.js';
import type { AcquireOptions } from './lease.js';
import { Lock } from './lock.js';
import { ownerOf, wantOf } from './internals/owner.js';
import { childrenOf, type Seat } from './participants.js';
import { queueAlone } from './internals/owner.js';
import { inOrder, lastBefore, queueOf } from './internals/node-names.js';

/*
 * Mutex (Curator's InterProcessMutex):
 *
 *   1. Create an ephemeral sequential node `_c_<uuid>-lock-` under the path and list the children.
 *   2. The lowest sequence number holds the lock.
 *   3. Everybody else watches the node just before its own and lists again when that one goes.
 *   4. Releasing the lock deletes the node.
 */

const MARKER = 'lock-';
const MARKERS = [MARKER];
const NAMES = { marker: MARKER, markers: MARKERS, nodeAhead: lastBefore };

/**
 * An exclusive lock on the znode `path`, fair between processes and within this one, shared with
 * every Curator `InterProcessMutex` and every other `Mutex` on that path. `withLock` and `enter`
 * re-enter along the asynchronous call chain as Curator does along the thread.
 *
 * @publicApi
 */
export class Mutex extends Lock {
  override readonly recipe = 'mutex';

  protected override heldByChain(): Grant | undefined {
    return reentryInChain(this.client, this.path, 'mutex');
  }

  protected override take(options: AcquireOptions): Promise<Grant> | Grant {
    if (options.fairness === 'strict') return queueAlone(this, 'mutex', options, NAMES);
    return ownerOf(this, 'mutex', NAMES).acquire(wantOf(this, options));
  }

  protected override async seats(): Promise<Seat[]> {
    const { client, path: parent } = this;
    const queue = queueOf({ parent, markers: MARKERS }, await childrenOf(client, parent));
    return inOrder(queue).map((node, index) => ({
      node,
      parent,
      state: index === 0 ? 'holding' : 'waiting',
      mode: 'exclusive',
    }));
  }
}
