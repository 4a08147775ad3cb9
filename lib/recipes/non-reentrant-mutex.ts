import type { ZkClient } from '../client/index.js';
import { checkOptions } from '../client/validation.js';
import { grantInChain } from './internals/call-chain.js';
import type { Grant } from './internals/grant.js';
import type { LockOptions } from './lock.js';
import { Semaphore } from './semaphore.js';

/*
 * Non-reentrant mutex (Curator's InterProcessSemaphoreMutex): a semaphore of one permit.
 */

/**
 * An exclusive lock that nobody enters twice, shared with Curator's `InterProcessSemaphoreMutex` on
 * the same path. Asking for it inside of itself is refused, since it would wait for itself.
 *
 * @publicApi
 */
export class NonReentrantMutex extends Semaphore {
  override readonly noun = 'lock';

  constructor(client: ZkClient, path: string, options: Pick<LockOptions, 'key'> = {}) {
    const { key } = checkOptions(options, ['key']);
    super(client, path, { key, permits: 1 });
  }

  protected override heldByChain(): Grant | undefined {
    if (grantInChain(this.client, this.path, 'semaphore')) {
      throw this.selfDeadlock('which this lock never allows');
    }
    return undefined;
  }
}
