import { UseInterceptors } from '@nestjs/common';
import { BadOptionError } from '../client/errors.js';
import { DistributedLockInterceptor } from './distributed-lock.interceptor.js';
import type {
  DistributedLockOptions,
  KeyFromContext,
  LockableMethod,
  LockDecorator,
  LockKey,
  Skippable,
} from './distributed-lock.types.js';
import { MisuseError } from './errors.js';
import { injectLockService } from './injected-service.js';
import { type KeySource, LockSpec } from './lock-spec.js';
import { wrapMethod } from './method-wrapper.js';
import { addLockSpec, copyMetadata, lockSpecsOf } from './method-metadata.js';

/**
 * Runs the method only while holding the lock of its key: one call at a time over all processes.
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
 * does not matter, but of several `@DistributedLock` the upper one is taken first.
 *
 * Inside, `currentLease()` gives the lease with its fencing token. In `applyDecorators`, where there
 * is no method to check the types against, write `DistributedLock(…) as MethodDecorator`.
 *
 * @publicApi
 */
export function DistributedLock<M extends LockableMethod>(
  key: LockKey<M>,
  options?: DistributedLockOptions & { onBusy?: 'throw' | ((key: string) => Error) },
): LockDecorator<M>;
export function DistributedLock<M extends LockableMethod>(
  key: LockKey<M>,
  options: DistributedLockOptions & { onBusy: 'skip' },
): LockDecorator<M & Skippable<M>>;
export function DistributedLock<M extends LockableMethod>(
  options: KeyFromContext &
    DistributedLockOptions & { onBusy?: 'throw' | ((key: string) => Error) },
): LockDecorator<M>;
export function DistributedLock(
  key: string | ((...args: never[]) => string) | (KeyFromContext & DistributedLockOptions),
  keyOptions: DistributedLockOptions = {},
): (target: object, method: string | symbol, descriptor: PropertyDescriptor) => void {
  return (target, method, descriptor) => {
    if (typeof target === 'function') {
      throw new MisuseError(
        `@DistributedLock cannot lock the static method ${target.name}.${String(method)}: a LockService is injected into instances alone. Make it a method of a provider`,
      );
    }
    const original: unknown = descriptor?.value;
    if (!isMethod(original)) {
      throw new MisuseError(
        `@DistributedLock on ${target.constructor.name}.${String(method)} stands on something that is not a method`,
      );
    }
    const { source, options } = split(key, keyOptions, target, method);
    const spec = new LockSpec(target, method, source, options);
    const property = injectLockService(target, spec.connection);
    const wrapper = wrapMethod(original, spec, property);
    copyMetadata(original, wrapper);
    if (lockSpecsOf(wrapper).length === 0) {
      UseInterceptors(DistributedLockInterceptor)(target, method, { value: wrapper });
    }
    addLockSpec(wrapper, spec);
    // In place, not returned: applyDecorators drops what a decorator returns.
    descriptor.value = wrapper;
  };
}

function split(
  key: unknown,
  options: DistributedLockOptions,
  target: object,
  method: string | symbol,
): { source: KeySource; options: DistributedLockOptions } {
  if (typeof key === 'string') return { source: { from: 'name', key }, options };
  if (isMethod(key)) return { source: { from: 'arguments', key }, options };
  if (typeof key === 'object' && key !== null && 'keyFromContext' in key) {
    const { keyFromContext, ...rest } = key as KeyFromContext & DistributedLockOptions;
    if (isMethod(keyFromContext)) {
      return { source: { from: 'context', key: keyFromContext }, options: rest };
    }
  }
  throw new BadOptionError(
    `key of @DistributedLock on ${target.constructor.name}.${String(method)}`,
    key,
    'a string, a function of the arguments, or { keyFromContext: (context) => key }',
  );
}

function isMethod(value: unknown): value is (...args: never[]) => never {
  return typeof value === 'function';
}
