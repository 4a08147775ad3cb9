import { leaseDecorator } from './decorate-method.js';
import type {
  DistributedLockOptions,
  KeyFromContext,
  LockableMethod,
  LockKey,
  MethodDecoratorFor,
  WithSkip,
  SkippingDecorator,
  WithoutSkip,
} from './decorator-types.js';
import { LOCK } from './lease-requirement.js';

/**
 * Runs the method only while it holds the lock of its key: one call at a time across all processes, or
 * with `mode` several readers or one writer. The locks of a list of keys are acquired together, all or none.
 *
 * ```ts
 * @Post(':goodsNo/purchase')
 * @DistributedLock((goodsNo) => `goods:${goodsNo}`, { wait: 5_000 })
 * async purchase(@Param('goodsNo') goodsNo: string) { … }
 * ```
 *
 * On a handler, an interceptor holds the lease until the method has settled, or its Observable has ended and the promises
 * that it or an interceptor of the method emitted have settled. It converts errors to the form of the transport. It runs
 * outside the method's other interceptors and inside those of the controller and the global ones. If the client disconnects during the wait, the wait is cancelled; the outer
 * interceptors and exception filters receive an HttpException with the status 499, which Nest does not log. On other
 * methods of providers (cron jobs, queue consumers, plain services) the call itself holds the lease; Nest must create
 * the instance. The position among other decorators of a handler does not matter, but of several `@DistributedLock` and
 * `@DistributedSemaphore` the upper one is acquired first. The lock does not cover a StreamableFile that is read after
 * the method has settled. Generators are rejected.
 *
 * Inside the method, `currentLease()` returns the lease with its fencing token. A key function in `applyDecorators` or in a
 * variable declares the types of its arguments, because there is no method to infer them from.
 *
 * @publicApi
 */
export function DistributedLock<M extends LockableMethod, This = object>(
  key: LockKey<M, This>,
  options?: WithoutSkip<DistributedLockOptions>,
): MethodDecoratorFor<M, This>;
export function DistributedLock<M extends LockableMethod, This = object>(
  key: LockKey<M, This>,
  options: WithSkip<DistributedLockOptions>,
): SkippingDecorator<M, This>;
export function DistributedLock<M extends LockableMethod, This = object>(
  options: KeyFromContext & WithoutSkip<DistributedLockOptions>,
): MethodDecoratorFor<M, This>;
export function DistributedLock(
  ...args: [key: unknown, options?: DistributedLockOptions]
): MethodDecorator {
  return leaseDecorator(LOCK, args);
}
