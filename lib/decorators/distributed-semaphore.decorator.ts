import { checkCalled, leaseDecorator } from './decorate-method.js';
import type {
  DistributedSemaphoreOptions,
  KeyFromContext,
  LockableMethod,
  LockDecorator,
  SemaphoreKey,
  Skippable,
  Skipped,
  Unskipped,
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
export function DistributedSemaphore<M extends LockableMethod>(
  key: SemaphoreKey<M>,
  options: Unskipped<DistributedSemaphoreOptions>,
): LockDecorator<M>;
export function DistributedSemaphore<M extends LockableMethod>(
  key: SemaphoreKey<M>,
  options: Skipped<DistributedSemaphoreOptions>,
): LockDecorator<M & Skippable<M>>;
export function DistributedSemaphore<M extends LockableMethod>(
  options: KeyFromContext<string> & Unskipped<DistributedSemaphoreOptions>,
): LockDecorator<M>;
export function DistributedSemaphore(
  ...args: [key: unknown, options?: DistributedSemaphoreOptions]
): MethodDecorator {
  checkCalled('@DistributedSemaphore', args);
  return leaseDecorator(SEMAPHORE, ...args);
}
