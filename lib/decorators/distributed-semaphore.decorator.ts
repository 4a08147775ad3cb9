import { leaseDecorator } from './decorate-method.js';
import type {
  DistributedSemaphoreOptions,
  KeyFromContext,
  LockableMethod,
  MethodDecoratorFor,
  SemaphoreKey,
  WithSkip,
  SkippingDecorator,
  WithoutSkip,
} from './decorator-types.js';
import { SEMAPHORE } from './lease-requirement.js';

/**
 * Runs the method only while it holds permits of its key: at most `permits` calls at a time across all processes.
 *
 * ```ts
 * @Get('report/:year')
 * @DistributedSemaphore('reports', { permits: 3, wait: 10_000 })
 * async report(@Param('year') year: string) { … }
 * ```
 *
 * Otherwise as {@link DistributedLock}, but it does not re-enter: a nested call acquires permits of its own.
 *
 * @publicApi
 */
export function DistributedSemaphore<M extends LockableMethod, This = object>(
  key: SemaphoreKey<M, This>,
  options: WithoutSkip<DistributedSemaphoreOptions>,
): MethodDecoratorFor<M, This>;
export function DistributedSemaphore<M extends LockableMethod, This = object>(
  key: SemaphoreKey<M, This>,
  options: WithSkip<DistributedSemaphoreOptions>,
): SkippingDecorator<M, This>;
export function DistributedSemaphore<M extends LockableMethod, This = object>(
  options: KeyFromContext<string> & WithoutSkip<DistributedSemaphoreOptions>,
): MethodDecoratorFor<M, This>;
export function DistributedSemaphore(
  ...args: [key: unknown, options?: DistributedSemaphoreOptions]
): MethodDecorator {
  return leaseDecorator(SEMAPHORE, args);
}
