import type { ZkClient } from '../client/index.js';
import { checkOptions, STRING } from '../client/validation.js';
import { grantInChain } from '../kernel/call-chain.js';
import type { Grant } from '../kernel/grant.js';
import type { LockConstructorOptions } from './lock.js';
import { Semaphore } from './semaphore.js';

/*
 * Non-reentrant mutex (Curator's InterProcessSemaphoreMutex): a semaphore of one permit.
 */

/**
 * An exclusive lock without re-entrancy. It shares the path with Curator's `InterProcessSemaphoreMutex`. An acquire
 * inside of another one rejects with a {@link SelfDeadlockError}, because it would wait for itself.
 *
 * @publicApi
 */
export class NonReentrantMutex extends Semaphore {
  /** @internal */
  override readonly noun = 'lock';

  constructor(client: ZkClient, path: string, options: Pick<LockConstructorOptions, 'key'> = {}) {
    const { key } = checkOptions(options, { key: STRING });
    super(client, path, { key, permits: 1 });
  }

  protected override heldByChain(): Grant | undefined {
    if (grantInChain(this.client, this.path, 'semaphore')) {
      throw this.selfDeadlock('and a NonReentrantMutex never re-enters');
    }
    return undefined;
  }
}
