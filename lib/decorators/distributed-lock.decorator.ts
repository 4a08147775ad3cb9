import { checkCalled } from './decorate-method.js';
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
import { leaseDecorator } from './decorate-method.js';
import { LOCK } from './lease-requirement.js';

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
 * On a handler, an interceptor holds the lease until the method has settled or its Observable has ended, and
 * gives its errors the transport's form. It runs around the other interceptors of the method, above and
 * below; those of the controller and global ones run around it. A caller that leaves while it waits leaves
 * the queue: those others and exception filters see an HttpException with the status 499, which Nest does
 * not log. On every other method of a provider that Nest makes (cron jobs, queue consumers, plain services)
 * the call itself holds it. The order among other decorators of a handler does not matter, but of several
 * `@DistributedLock` and `@DistributedSemaphore` the upper one is taken first. What is read later from a
 * StreamableFile is not locked any more, and a generator is refused.
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
export function DistributedLock(
  ...args: [key: unknown, options?: DistributedLockOptions]
): MethodDecorator {
  checkCalled('@DistributedLock', args);
  return leaseDecorator(LOCK, ...args) as MethodDecorator;
}
