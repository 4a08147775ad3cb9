import { ConnectionError, quotedKey, WaitCancelledError } from '../client/errors.js';
import { MAX_TIMER } from '../client/sleep.js';
import type { Affinity } from './affinity.js';
import { LockBusyError, LockTimeoutError } from './errors.js';
import type { AcquireOptions } from './lease.js';
import type { CallChain } from './call-chain.js';
import type { Subject } from './types.js';

/** Milliseconds. The limit of a try while others are ahead that are likely to leave soon. */
const TRY_TIMEOUT = 500;

/** Milliseconds. The limit of a try while there is no connection. */
const TRY_CONNECT_LIMIT = 2000;
/** Milliseconds. The limit of a try while there is a connection; it applies only if the server does not reply. */
const TRY_REPLY_LIMIT = 3000;
/** Milliseconds. If a timer is later, the event loop was blocked. */
const MAX_TIMER_DELAY = 250;

/**
 * Controllers whose signals were not aborted and have no listeners, for the next acquires. With them a handover through
 * LockService is 40 % faster, and an uncontended lock 12 %.
 */
const spareControllers: AbortController[] = [];
const MAX_SPARE_CONTROLLERS = 256;

export function takeController(): AbortController {
  return spareControllers.pop() ?? new AbortController();
}

/** Keeps a controller for {@link takeController}, unless it was aborted. Its signal must have no listeners any more. */
export function returnController(controller: AbortController): void {
  if (controller.signal.aborted || spareControllers.length >= MAX_SPARE_CONTROLLERS) return;
  spareControllers.push(controller);
}

/** The reason with which an acquisition is aborted when the last caller that it served has left. */
export const NO_WAITERS = new Error('no caller waits for the lock any more');

/** Subject and limits of a wait. */
export interface WaitRequest {
  readonly subject: Subject;
  /** Milliseconds; 0 for a try. */
  readonly wait: number;
  readonly signal: AbortSignal | undefined;
}

/** An acquire request. */
export interface Request extends WaitRequest {
  /** The data of the znode: the holder details. */
  readonly data: Uint8Array;
  readonly linger: number;
  /** Set for `linger: 'auto'`. */
  readonly affinity?: Affinity | undefined;
  /** The number of permits; 1 for a lock. */
  readonly count: number;
}

/**
 * A caller that waits for a `T`. The wait ends once: by a result, an error, its timeout or its signal. Then neither a
 * timer nor a listener is left.
 */
export class Waiter<T, R extends WaitRequest = Request> {
  readonly promise: Promise<T>;
  over = false;
  /** The call chain of the caller at the time when it asked; another chain may settle the wait. */
  chain: CallChain | undefined;
  /** Called when the wait has ended, before the caller learns of it. */
  onOver: (() => void) | undefined;
  private settle!: { resolve: (value: T) => void; reject: (error: unknown) => void };
  private timer: NodeJS.Timeout | undefined;
  /** Limits a try whose requests get no reply. */
  private replyTimer: NodeJS.Timeout | undefined;
  private replyDue = 0;
  /** Removes the listener from the caller's signal. */
  private unlisten: (() => void) | undefined;

  /**
   * @param queue its `remove` is called when the wait has ended, before the caller learns of it
   * @param timeoutError makes the error of the timeout; default: a LockTimeoutError
   */
  constructor(
    readonly request: R,
    private readonly queue: { remove(waiter: Waiter<T, R>): void },
    timeoutError: (subject: Subject, wait: number) => Error = timedOut,
  ) {
    this.promise = new Promise<T>((resolve, reject) => (this.settle = { resolve, reject }));
    const { subject, wait, signal } = request;
    if (wait === 0) this.awaitReply();
    else if (wait !== Infinity) {
      const onTimeout = () => this.reject(timeoutError(subject, wait));
      this.timer = setTimeout(onTimeout, Math.min(wait, MAX_TIMER));
    }
    if (!signal) return;
    const onAbort = () => this.reject(cancelled(subject, signal));
    signal.addEventListener('abort', onAbort);
    this.unlisten = () => signal.removeEventListener('abort', onAbort);
  }

  /**
   * Refuses a try, because another holder or waiter is ahead of it. Other waiters continue to wait.
   *
   * @param why a sentence about the holder
   */
  blocked(why?: string): void {
    if (this.request.wait === 0) this.reject(busy(this.request.subject, why));
  }

  /**
   * Others are ahead of this waiter, but they are likely to leave soon. Refuses a try {@link TRY_TIMEOUT} after the
   * first call.
   */
  blockedBriefly(): void {
    if (this.request.wait > 0 || this.over) return;
    this.timer ??= setTimeout(() => this.blocked(), TRY_TIMEOUT);
  }

  /** Clears the limit of {@link blockedBriefly}: nobody is ahead any more. */
  unblocked(): void {
    if (this.request.wait > 0) return;
    clearTimeout(this.timer);
    this.timer = undefined;
  }

  /** Resolves the wait. Returns false if it has ended already, so that no caller receives the value. */
  resolve(value: T): boolean {
    if (!this.end()) return false;
    this.settle.resolve(value);
    return true;
  }

  reject(error: unknown): void {
    if (this.end()) this.settle.reject(error);
  }

  private awaitReply(): void {
    this.replyDue = performance.now() + TRY_REPLY_LIMIT;
    this.replyTimer = setTimeout(() => {
      // If the event loop was blocked, the reply may wait in the socket.
      if (performance.now() > this.replyDue + MAX_TIMER_DELAY) return this.awaitReply();
      const why = `the ensemble has not replied within ${TRY_REPLY_LIMIT} ms`;
      this.reject(unanswered(this.request.subject, 0, why));
    }, TRY_REPLY_LIMIT);
  }

  private end(): boolean {
    if (this.over) return false;
    this.over = true;
    clearTimeout(this.timer);
    clearTimeout(this.replyTimer);
    this.unlisten?.();
    this.onOver?.();
    this.queue.remove(this);
    return true;
  }
}

export function busy(
  { noun, key }: Subject,
  why = `lock ${quotedKey(key)} is held`,
): LockBusyError {
  const message =
    noun === 'semaphore'
      ? `too few permits of semaphore ${quotedKey(key)} are free; set wait above 0 to queue for them`
      : `${why}; set wait above 0 to queue for it`;
  return new LockBusyError(message, { key });
}

export function timedOut({ noun, key }: Subject, wait: number): LockTimeoutError {
  const name = `${noun} ${quotedKey(key)}`;
  const messages = {
    lock: `lock ${quotedKey(key)} was not granted within ${wait} ms; participants() lists the holders`,
    semaphore: `no permit of ${name} was granted within ${wait} ms; participants() lists the holders`,
    election: `${name} was not won within ${wait} ms`,
  };
  return new LockTimeoutError(messages[noun], { key });
}

export function cancelled(
  { noun, key }: { readonly noun: string; readonly key: string },
  { reason }: AbortSignal,
): WaitCancelledError {
  const message = `the wait for ${noun} ${quotedKey(key)} was cancelled`;
  return new WaitCancelledError(message, { key, cause: reason });
}

/**
 * Calls `connect`, which waits for a connection: at most for `wait`, and for a try {@link TRY_CONNECT_LIMIT}. Resolves to
 * the options with what is left of `wait`.
 *
 * @param connect the signal aborts when the wait has ended
 * @throws ConnectionError at the limit; WaitCancelledError; what `connect` throws
 */
export async function connectWithin<O extends Pick<AcquireOptions, 'wait' | 'signal'>>(
  subject: Subject,
  options: O,
  connect: (signal: AbortSignal) => Promise<unknown>,
): Promise<O> {
  const { wait = Infinity, signal } = options;
  if (signal?.aborted) throw cancelled(subject, signal);
  const limit = wait || TRY_CONNECT_LIMIT;
  const deadline = performance.now() + limit;
  // Not AbortSignal.any(): `signal` may serve later callers, and would keep a dependent signal for each acquire.
  const ended = new AbortController();
  const waiter: Waiter<unknown, WaitRequest> = new Waiter<unknown, WaitRequest>(
    { subject, wait: limit, signal },
    { remove: () => ended.abort() },
    () => unanswered(subject, wait, `there was no connection for ${limit} ms`),
  );
  connect(ended.signal).then(
    (connection) => waiter.resolve(connection),
    (error) => waiter.reject(error),
  );
  await waiter.promise;
  return wait === 0 ? options : { ...options, wait: waitUntil(deadline) };
}

/** Returns the milliseconds until a deadline. Never 0, which would be a try. */
export function waitUntil(deadline: number): number {
  return Math.max(1, Math.ceil(deadline - performance.now()));
}

function unanswered({ noun, key }: Subject, wait: number, why: string): ConnectionError {
  const message = `${noun} ${quotedKey(key)} was not acquired: ${why}; set wait above ${wait} to wait longer`;
  return new ConnectionError(message, { key });
}
