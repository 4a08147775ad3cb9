import { BadOptionError, WaitCancelledError } from '../../client/errors.js';
import { checkRecord } from '../../client/validation.js';
import type { AcquireOptions } from '../lease.js';
import { LockBusyError, LockTimeoutError } from '../errors.js';

/** The lock or semaphore that a caller asks for, as errors name it. */
export interface Wanted {
  readonly noun: 'lock' | 'semaphore';
  readonly key: string;
}

/** The longest timer of Node in milliseconds, 24.8 days. A longer wait ends then, too. */
export const LONGEST_TIMER = 2 ** 31 - 1;

/** Milliseconds that a try waits for others that are likely to leave soon. */
const TRY_TIMEOUT = 500;

/** The reason with which an acquisition is aborted when the last caller that wanted it has left. */
export const NOBODY_WAITS = new Error('nobody waits any more');

/**
 * Checks the options that every acquire takes.
 *
 * @param named returns the name of an option for errors
 */
export function checkAcquire(options: AcquireOptions, named = (option: string) => option): void {
  checkRecord(options);
  const { wait, signal, holdAtLeast, holdAtMost, fairness, linger, onDeadlock } = options;
  checkMilliseconds(named('wait'), wait, 0, '0 or more milliseconds, or Infinity');
  checkMilliseconds(named('linger'), linger, 0, '0 or more milliseconds');
  if ((linger ?? 0) > LONGEST_TIMER) {
    throw new BadOptionError(named('linger'), linger, 'less than 24 days');
  }
  if (fairness !== undefined && fairness !== 'handover' && fairness !== 'strict') {
    throw new BadOptionError(named('fairness'), fairness, "'handover' or 'strict'");
  }
  if (onDeadlock !== undefined && onDeadlock !== 'report' && onDeadlock !== 'refuse') {
    throw new BadOptionError(named('onDeadlock'), onDeadlock, "'report' or 'refuse'");
  }
  checkMilliseconds(named('holdAtLeast'), holdAtLeast, 0, '0 or more milliseconds');
  checkMilliseconds(named('holdAtMost'), holdAtMost, 1, '1 or more milliseconds, or Infinity');
  if ((holdAtLeast ?? 0) > Math.min(holdAtMost ?? Infinity, LONGEST_TIMER)) {
    const expected = 'less than 24 days and than holdAtMost';
    throw new BadOptionError(named('holdAtLeast'), holdAtLeast, expected);
  }
  if (signal !== undefined && !(signal instanceof AbortSignal)) {
    throw new BadOptionError(named('signal'), signal, 'an AbortSignal');
  }
}

function checkMilliseconds(option: string, value: unknown, least: number, expected: string): void {
  if (value !== undefined && !(typeof value === 'number' && value >= least)) {
    throw new BadOptionError(option, value, expected);
  }
}

/** Settles with `promise`, or rejects with the signal's reason. No listener is left on the signal. */
export function abortable<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (!signal) return promise;
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

/** How long a caller waits for what. */
export interface WaitRequest {
  readonly wanted: Wanted;
  /** Milliseconds; 0 for a try. */
  readonly wait: number;
  readonly signal: AbortSignal | undefined;
}

/** What a caller of an acquire asks for. */
export interface Request extends WaitRequest {
  /** What the znode says about the caller. */
  readonly data: Uint8Array;
  readonly linger: number;
  /** The number of permits; 1 for a lock. */
  readonly count: number;
  readonly onDeadlock: AcquireOptions['onDeadlock'];
}

/**
 * A caller that waits for a `T`. The wait ends once: by a result, an error, its timeout or its signal. Then neither a
 * timer nor a listener is left.
 */
export class Waiter<T, R extends WaitRequest = Request> {
  readonly promise: Promise<T>;
  /** Whether the wait has ended. */
  over = false;
  /** Called when the wait has ended, before the caller learns of it. */
  onOver: (() => void) | undefined;
  private settle!: { resolve: (value: T) => void; reject: (error: unknown) => void };
  private timer: NodeJS.Timeout | undefined;

  constructor(
    readonly request: R,
    private readonly onEnd: (waiter: Waiter<T, R>) => void,
  ) {
    this.promise = new Promise<T>((resolve, reject) => (this.settle = { resolve, reject }));
    const { wait, signal } = request;
    if (wait > 0 && wait !== Infinity) {
      this.timer = setTimeout(this.onTimeout, Math.min(wait, LONGEST_TIMER));
    }
    signal?.addEventListener('abort', this.onAbort);
  }

  /** Refuses a try, because another holder or waiter is ahead of it. Other waiters continue to wait. */
  blocked(): void {
    if (this.request.wait === 0) this.reject(busy(this.request.wanted));
  }

  /**
   * Others are ahead of this waiter, but they are likely to leave soon. Refuses a try {@link TRY_TIMEOUT} after the
   * first call.
   */
  blockedBriefly(): void {
    if (this.request.wait > 0 || this.over) return;
    this.timer ??= setTimeout(() => this.blocked(), TRY_TIMEOUT);
  }

  /** Nobody is ahead of this waiter any more. From now on a try takes as long as its own requests do. */
  unblocked(): void {
    if (this.request.wait > 0) return;
    clearTimeout(this.timer);
    this.timer = undefined;
  }

  /** Resolves the wait. Returns false if it has ended already, so that nobody takes the value. */
  resolve(value: T): boolean {
    if (!this.end()) return false;
    this.settle.resolve(value);
    return true;
  }

  reject(error: unknown): void {
    if (this.end()) this.settle.reject(error);
  }

  private readonly onTimeout = (): void =>
    this.reject(timedOut(this.request.wanted, this.request.wait));

  private readonly onAbort = (): void =>
    this.reject(cancelled(this.request.wanted, this.request.signal!));

  private end(): boolean {
    if (this.over) return false;
    this.over = true;
    clearTimeout(this.timer);
    this.request.signal?.removeEventListener('abort', this.onAbort);
    this.onOver?.();
    this.onEnd(this);
    return true;
  }
}

export function busy({ noun, key }: Wanted): LockBusyError {
  const message =
    noun === 'semaphore'
      ? `too few permits of semaphore ${quote(key)} are left; a wait above 0 queues up for them`
      : `lock ${quote(key)} is taken; a wait above 0 queues up for it`;
  return new LockBusyError(message, { key });
}

export function timedOut({ noun, key }: Wanted, wait: number): LockTimeoutError {
  const message =
    noun === 'semaphore'
      ? `no permit of semaphore ${quote(key)} was granted within ${wait} ms; participants() lists the holders`
      : `lock ${quote(key)} was not granted within ${wait} ms; participants() lists the holders`;
  return new LockTimeoutError(message, { key });
}

export function cancelled({ noun, key }: Wanted, signal: AbortSignal): WaitCancelledError {
  return new WaitCancelledError(`the wait for ${noun} ${quote(key)} was cancelled`, {
    key,
    cause: signal.reason,
  });
}

function quote(key: string): string {
  return JSON.stringify(key);
}
