import type { ExecutionContext } from '@nestjs/common';
import type { Observable } from 'rxjs';
import type { LockKeys } from '../services/keys.js';
import type { LeaseOptions } from '../services/lease-service.js';
import type { LockOptions } from '../services/lock.service.js';
import type { AcquirePermitOptions } from '../services/semaphore.service.js';

/**
 * A method that may hold a lock: it returns a promise or an Observable. `never[]` matches any parameters.
 *
 * @publicApi
 */
export type LockableMethod = (...args: never[]) => Promise<unknown> | Observable<unknown>;

/**
 * A key, a list of keys that are locked together, or a function that makes them from the arguments of the method. Inside
 * a function that is no arrow function, `this` is the instance.
 *
 * @publicApi
 */
export type LockKey<M extends LockableMethod, This = object> =
  LockKeys | ((this: This, ...args: Parameters<M>) => LockKeys);

/**
 * A key, or a function that makes it from the arguments of the method, as a {@link LockKey}.
 *
 * @publicApi
 */
export type SemaphoreKey<M extends LockableMethod, This = object> =
  string | ((this: This, ...args: Parameters<M>) => string);

/**
 * Options of `@DistributedLock` and `@DistributedSemaphore`. `wait`, `holdAtMost`, `fairness`, `linger` and
 * `details` default to the connection's `defaults`.
 *
 * @publicApi
 */
export interface LeaseDecoratorOptions extends Omit<LeaseOptions, 'signal'> {
  /**
   * What to do if others hold the lock for all of `wait`. `'throw'`, the default, rejects with a LockBusyError or
   * LockTimeoutError, which a handler answers with 409 or 503. A function receives the key that others hold and returns
   * the error to reject with. `'skip'` resolves to undefined and does not run the method. It needs a finite wait, and
   * is an error on a handler, which would answer success although nothing was done.
   */
  onBusy?: 'throw' | 'skip' | ((key: string) => Error) | undefined;
  /**
   * What to do if the method succeeded but the lease was lost while it ran, so that another holder may
   * have run at the same time: `'throw'`, the default, rejects with the LeaseLostError.
   */
  onLost?: 'throw' | 'ignore' | undefined;
  /** The `name` of the ZkModule connection to lock on. Default: the connection without a name. */
  connection?: string | undefined;
}

/**
 * Options of `@DistributedLock`.
 *
 * @publicApi
 */
export interface DistributedLockOptions
  extends LeaseDecoratorOptions, Pick<LockOptions, 'mode' | 'reentrant'> {}

/**
 * Options of `@DistributedSemaphore`.
 *
 * @publicApi
 */
export interface DistributedSemaphoreOptions
  extends LeaseDecoratorOptions, Pick<AcquirePermitOptions, 'permits' | 'count'> {}

/**
 * Makes the key from the ExecutionContext, for handlers only. The lock is acquired in the interceptor: after
 * the guards, before the pipes.
 *
 * @publicApi
 */
export interface KeyFromContext<K extends LockKeys = LockKeys> {
  /** Called once for each call of the handler. */
  keyFromContext: (context: ExecutionContext) => K;
}

/**
 * A decorator for methods like `M` of instances of `This`.
 *
 * @publicApi
 */
export interface MethodDecoratorFor<M, This = object> {
  /** Never called. With two signatures, the compiler accepts the type where a MethodDecorator is expected. */
  (): void;
  (
    // Only a constructor has a prototype. As target it means a static method, which has no instance with a service.
    target: This & { prototype?: never },
    method: string | symbol,
    // Not a TypedPropertyDescriptor, which would be for methods of exactly one type.
    descriptor: { value?: M },
  ): void;
}

/**
 * A method whose calls may be skipped: its promise may resolve to undefined. For another method, the compiler's message
 * contains the text of this type.
 *
 * @publicApi
 */
export type Skippable<M extends LockableMethod> = M &
  (ReturnType<M> extends Promise<infer R>
    ? undefined extends R
      ? unknown
      : { 'A skipped call resolves to undefined': 'Declare the result as Promise<T | undefined>' }
    : unknown);

/**
 * A result in place of that of a method, or a promise or an Observable of it.
 *
 * @publicApi
 */
export type ResultOf<M extends LockableMethod> =
  ReturnType<M> extends Promise<infer R> | Observable<infer R>
    ? R | Observable<R> | Promise<R | Observable<R>>
    : unknown;

/**
 * A {@link MethodDecoratorFor} that is for methods whose calls may be skipped. The type of a decorator in a variable
 * contains no method (`M` is any that can be locked), so each use of it is checked.
 *
 * @publicApi
 */
export type SkippingDecorator<M extends LockableMethod, This = object> = LockableMethod extends M
  ? {
      (): void;
      <Used extends LockableMethod>(
        target: This & { prototype?: never },
        method: string | symbol,
        descriptor: { value?: Used & Skippable<Used> },
      ): void;
    }
  : MethodDecoratorFor<M & Skippable<M>, This>;

/** Options without `onBusy: 'skip'`. */
export type WithoutSkip<O extends LeaseDecoratorOptions> = O & {
  onBusy?: Exclude<LeaseDecoratorOptions['onBusy'], 'skip'> | undefined;
};

/** Options with `onBusy: 'skip'`. */
export type WithSkip<O extends LeaseDecoratorOptions> = O & { onBusy: 'skip' };
