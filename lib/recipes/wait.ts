import { BadOptionError, WaitCancelledError } from '../client/errors.js';
import { LockBusyError, LockTimeoutError } from './errors.js';

/** Node's longest timer, 24.8 days: a longer wait ends there too. */
const LONGEST_TIMER = 2 ** 31 - 1;

export function checkWait(wait: unknown): asserts wait is number {
  if (typeof wait !== 'number' || !(wait >= 0)) {
    throw new BadOptionError('wait', wait, '0 or more milliseconds, or Infinity');
  }
}

export function checkSignal(signal: unknown): asserts signal is AbortSignal | undefined {
  if (signal !== undefined && !(signal instanceof AbortSignal)) {
    throw new BadOptionError('signal', signal, 'an AbortSignal');
  }
}

/** Settles with `promise`, or rejects with the signal's reason; leaves no listener on the signal. */
export function abortable<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    if (signal.aborted) {
      reject(signal.reason);
      return;
    }
    const onAbort = () => reject(signal.reason);
    signal.addEventListener('abort', onAbort);
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort));
  });
}

/**
 * One caller's wait for a `T`: ends once, by a result, an error, its deadline or its signal, and then
 * holds neither timer nor listener.
 */
export class Waiter<T> {
  readonly promise: Promise<T>;
  private settle!: { resolve: (value: T) => void; reject: (error: unknown) => void };
  private timer: NodeJS.Timeout | undefined;
  private waiting = true;

  constructor(
    private readonly key: string,
    private readonly wait: number,
    private readonly signal: AbortSignal | undefined,
    private readonly onEnd: (waiter: Waiter<T>) => void,
  ) {
    this.promise = new Promise<T>((resolve, reject) => (this.settle = { resolve, reject }));
    // A mere try has no deadline: whoever serves it says at the first look that the lock is busy.
    if (wait > 0 && wait !== Infinity) {
      this.timer = setTimeout(this.onDeadline, Math.min(wait, LONGEST_TIMER));
    }
    signal?.addEventListener('abort', this.onAbort);
  }

  /** Others are before this waiter: a try ends here, a patient one goes on waiting. */
  blocked(): void {
    if (this.wait === 0) this.reject(busy(this.key));
  }

  resolve(value: T): void {
    if (this.end()) this.settle.resolve(value);
  }

  reject(error: unknown): void {
    if (this.end()) this.settle.reject(error);
  }

  private readonly onDeadline = (): void =>
    this.reject(
      new LockTimeoutError(`lock ${quote(this.key)} was not granted within ${this.wait} ms`, {
        key: this.key,
      }),
    );

  private readonly onAbort = (): void => this.reject(cancelled(this.key, this.signal!));

  private end(): boolean {
    if (!this.waiting) return false;
    this.waiting = false;
    clearTimeout(this.timer);
    this.signal?.removeEventListener('abort', this.onAbort);
    this.onEnd(this);
    return true;
  }
}

export function busy(key: string): LockBusyError {
  return new LockBusyError(`lock ${quote(key)} is taken`, { key });
}

export function cancelled(key: string, signal: AbortSignal): WaitCancelledError {
  return new WaitCancelledError(`the wait for lock ${quote(key)} was cancelled`, {
    key,
    cause: signal.reason,
  });
}

function quote(key: string): string {
  return JSON.stringify(key);
}
