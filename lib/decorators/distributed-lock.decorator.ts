import type {
  DistributedLockOptions,
  KeyFromContext,
  LockableMethod,
  LockDecorator,
  LockKey,
  Skippable,
  Skipped,
  Unskipped,
} from './decorator-types.js';
import { leaseDecorator } from './lease-decorator.js';
import { LOCK } from './lease-kind.js';

/**
 * Runs the method only while holding the lock of its key: one call at a time over all processes, or
 * with `mode` many that read or one that writes. A list of keys is locked as one, all or none.
 *
 * ```ts
 * @Post(':goodsNo/purchase')
 * @DistributedLock((goodsNo) => `goods:${goodsNo}`, { wait: 5_000 })
 * async purchase(@Param('goodsNo') goodsNo: string) { … }
 * ```
 *
 * On a handler, an interceptor holds the lease until the answer is complete, streams included, and
 * gives its errors the transport's form. On every other method of a provider that Nest makes (cron
 * jobs, queue consumers, plain services) the call itself holds it. The order among other decorators
 * does not matter, but of several `@DistributedLock` and `@DistributedSemaphore` the upper one is
 * taken first.
 *
 * Inside, `currentLease()` gives the lease with its fencing token. In `applyDecorators`, where there
 * is no method to check the types against, write `DistributedLock(…) as MethodDecorator`.
 *
 * @publicApi
 */
export function DistributedLock<M extends LockableMethod>(
  key: LockKey<M>,
  options?: Unskipped<DistributedLockOptions>,
): LockDecorator<M>;
export function DistributedLock<M extends LockableMethod>(
  key: LockKey<M>,
  options: Skipped<DistributedLockOptions>,
): LockDecorator<M & Skippable<M>>;
export function DistributedLock<M extends LockableMethod>(
  options: KeyFromContext & Unskipped<DistributedLockOptions>,
): LockDecorator<M>;
export function DistributedLock(key: unknown, options?: DistributedLockOptions): MethodDecorator {
  return leaseDecorator(LOCK, key, options) as MethodDecorator;
}
