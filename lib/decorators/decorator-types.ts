import type { ExecutionContext } from '@nestjs/common';
import type { Observable } from 'rxjs';
import type { LeaseOptions } from '../services/service-options.js';
import type { LockKeys } from '../services/keys.js';
import type { LockOptions } from '../services/service-options.js';
import type { AcquirePermitOptions } from '../services/service-options.js';

/**
 * What can hold a lock: a method whose end can be waited for. `never[]` stands for any parameters.
 *
 * @publicApi
 */
export type LockableMethod = (...args: never[]) => Promise<unknown> | Observable<unknown>;

/**
 * A key, or several that are locked as one, or what makes them of the arguments that the method is
 * called with.
 *
 * @publicApi
 */
export type LockKey<M extends LockableMethod> = LockKeys | ((...args: Parameters<M>) => LockKeys);

/**
 * A key, or what makes one of the arguments that the method is called with.
 *
 * @publicApi
 */
export type SemaphoreKey<M extends LockableMethod> = string | ((...args: Parameters<M>) => string);

/**
 * What all decorators that hold something while their method runs take. `wait`, `holdAtMost`, `fairness`,
 * `linger`, `onDeadlock` and `details` default to the connection's `defaults`.
 *
 * @publicApi
 */
export interface HoldingOptions extends Omit<LeaseOptions, 'signal'> {
  /**
   * What happens where others hold the lock for all of `wait`. `'throw'`, the default, rejects with a
   * LockBusyError or LockTimeoutError, which a handler answers as 409 or 503; a function makes the
   * error to reject with, of the key that others hold; `'skip'` resolves to undefined without running
   * the method. `'skip'` needs a finite wait, and is refused on handlers: they would answer success
   * with nothing done.
   */
  onBusy?: 'throw' | 'skip' | ((key: string) => Error);
  /**
   * What happens when the method has succeeded, but the lease was lost meanwhile, so that another may
   * have run beside it: `'throw'`, the default, rejects with the LeaseLostError.
   */
  onLost?: 'throw' | 'ignore';
  /** The `name` of the ZkModule connection to lock on. */
  connection?: string;
}

/**
 * What `@DistributedLock` takes beside the key.
 *
 * @publicApi
 */
export interface DistributedLockOptions
  extends HoldingOptions, Pick<LockOptions, 'mode' | 'reentrant'> {}

/**
 * What `@DistributedSemaphore` takes beside the key.
 *
 * @publicApi
 */
export interface DistributedSemaphoreOptions
  extends HoldingOptions, Pick<AcquirePermitOptions, 'permits' | 'count'> {}

/**
 * For handlers only: the key is made of what the interceptor sees, after the guards and before the
 * pipes, and the lock is taken then.
 *
 * @publicApi
 */
export interface KeyFromContext<K extends LockKeys = LockKeys> {
  /** Makes the key of what the interceptor sees. */
  keyFromContext: (context: ExecutionContext) => K;
}

/**
 * A decorator for instance methods like `M`.
 *
 * @publicApi
 */
export type LockDecorator<M> = <T extends object>(
  // A constructor here means a static method, which has no instance to find its service by.
  // eslint-disable-next-line @typescript-eslint/no-unsafe-function-type
  target: T extends Function ? never : T,
  method: string | symbol,
  descriptor: TypedPropertyDescriptor<M>,
) => void;

/**
 * `onBusy: 'skip'` resolves to undefined: a method that promises something else cannot be skipped.
 *
 * @publicApi
 */
export type Skippable<M extends LockableMethod> = M &
  (ReturnType<M> extends Promise<infer R> ? (undefined extends R ? unknown : never) : unknown);

/** As options of a method that may not be skipped. */
export type Unskipped<O extends HoldingOptions> = O & {
  onBusy?: Exclude<HoldingOptions['onBusy'], 'skip'>;
};

/** As options of a method that may be skipped. */
export type Skipped<O extends HoldingOptions> = O & { onBusy: 'skip' };
