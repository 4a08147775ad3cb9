import { BadOptionError, WaitCancelledError } from '../../client/errors.js';
import { checkRecord } from '../../client/validation.js';
import type { Link } from './call-chain.js';
import type { AcquireOptions } from '../lease.js';
import { LockBusyError, LockTimeoutError } from '../errors.js';

/** What is waited for, as errors call it. */
export interface Wanted {
  readonly noun: 'lock' | 'semaphore';
  readonly key: string;
}

/** Node's longest timer, 24.8 days: a longer wait ends there too. */
export const LONGEST_TIMER = 2 ** 31 - 1;

/** Milliseconds that an acquire with `wait: 0` waits for others who are likely to be gone soon. */
const TRY_TIMEOUT = 500;

/** Why nobody waits for a turn. One for all: the reason that abort() makes by itself costs more than a hand-over. */
export const NOBODY_WAITS = new Error('nobody waits any more');

/** Checks what every acquire takes, before anything is sent. @param named what errors call an option */
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

/** Settles with `promise`, or rejects with the signal's reason; leaves no listener on the signal. */
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

/**
 * One caller's wait for a `T`: ends once, by a result, an error, its deadline or its signal, and then
 * holds neither timer nor listener.
 */
export class Waiter<T> {
  readonly promise: Promise<T>;
  /** The call chain that waits, where it may hold something: see deadlock/. */
  chain: Link | undefined;
  onDeadlock: AcquireOptions['onDeadlock'];
  /** Called when it has ended, before anybody hears of it. */
  onOver: (() => void) | undefined;
  private settle!: { resolve: (value: T) => void; reject: (error: unknown) => void };
  private timer: NodeJS.Timeout | undefined;
  private waiting = true;

  constructor(
    readonly wanted: Wanted,
    readonly wait: number,
    private readonly signal: AbortSignal | undefined,
    /** What the waiter's node is to say about it. */
    readonly data: Uint8Array,
    private readonly onEnd: (waiter: Waiter<T>) => void,
  ) {
    this.promise = new Promise<T>((resolve, reject) => (this.settle = { resolve, reject }));
    // An acquire with `wait: 0` is refused by blocked().
    if (wait > 0 && wait !== Infinity) {
      this.timer = setTimeout(this.onDeadline, Math.min(wait, LONGEST_TIMER));
    }
    signal?.addEventListener('abort', this.onAbort);
  }

  /** It has ended, and nobody takes a value. */
  get over(): boolean {
    return !this.waiting;
  }

  /** More than a mere try. */
  get patient(): boolean {
    return this.wait > 0;
  }

  /** Others are before this waiter: a try ends here, a patient one goes on waiting. */
  blocked(): void {
    if (!this.patient) this.reject(busy(this.wanted));
  }

  /** Others are before this waiter, but are likely to be gone soon: a try ends {@link TRY_TIMEOUT} after the first call. */
  blockedBriefly(): void {
    if (this.patient || this.over) return;
    this.timer ??= setTimeout(() => this.blocked(), TRY_TIMEOUT);
  }

  /** Nobody is before this waiter any more: from now on a try takes as long as its own requests do. */
  unblocked(): void {
    if (this.patient) return;
    clearTimeout(this.timer);
    this.timer = undefined;
  }

  /** False where the wait has ended already, and nobody takes the value. */
  resolve(value: T): boolean {
    if (!this.end()) return false;
    this.settle.resolve(value);
    return true;
  }

  reject(error: unknown): void {
    if (this.end()) this.settle.reject(error);
  }

  private readonly onDeadline = (): void => this.reject(timedOut(this.wanted, this.wait));

  private readonly onAbort = (): void => this.reject(cancelled(this.wanted, this.signal!));

  private end(): boolean {
    if (!this.waiting) return false;
    this.waiting = false;
    clearTimeout(this.timer);
    this.signal?.removeEventListener('abort', this.onAbort);
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
      ? `no permit of semaphore ${quote(key)} was granted within ${wait} ms; participants() tells who holds them`
      : `lock ${quote(key)} was not granted within ${wait} ms; participants() tells who holds it`;
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
