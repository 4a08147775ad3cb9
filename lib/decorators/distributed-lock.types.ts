import type { ExecutionContext } from '@nestjs/common';
import type { Observable } from 'rxjs';

/**
 * What can hold a lock: a method whose end can be waited for. `never[]` stands for any parameters.
 *
 * @publicApi
 */
export type LockableMethod = (...args: never[]) => Promise<unknown> | Observable<unknown>;

/**
 * A key, or what makes one of the arguments that the method is called with.
 *
 * @publicApi
 */
export type LockKey<M extends LockableMethod> = string | ((...args: Parameters<M>) => string);

/** @publicApi */
export interface DistributedLockOptions {
  /**
   * Milliseconds to wait while others hold the lock: 0 only tries, Infinity waits for ever. Default:
   * the connection's `defaults.wait`, which is Infinity unless it was set.
   */
  wait?: number;
  /**
   * What happens where others hold the lock for all of `wait`. `'throw'`, the default, rejects with a
   * LockBusyError or LockTimeoutError, which a handler answers as 409 or 503; a function makes the
   * error to reject with; `'skip'` resolves to undefined without running the method. `'skip'` needs a
   * finite wait, and is refused on handlers: they would answer success with nothing done.
   */
  onBusy?: 'throw' | 'skip' | ((key: string) => Error);
  /**
   * What happens when the method has succeeded, but the lease was lost meanwhile, so that another may
   * have run beside it: `'throw'`, the default, rejects with the LeaseLostError.
   */
  onLost?: 'throw' | 'ignore';
  /** The `name` of the ZkModule connection to lock on. */
  connection?: string;
  /** The exact znode of the lock instead of one made from the key. */
  path?: string;
  /** False refuses to enter where this call chain holds the lock already. Default true. */
  reentrant?: boolean;
}

/**
 * For handlers only: the key is made of what the interceptor sees, after the guards and before the
 * pipes, and the lock is taken then.
 *
 * @publicApi
 */
export interface KeyFromContext {
  keyFromContext: (context: ExecutionContext) => string;
}

/**
 * A decorator for instance methods like `M`.
 *
 * @publicApi
 */
export type LockDecorator<M> = <T extends object>(
  // A constructor here means a static method, which has no instance to find its LockService by.
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
