import type { Session, Watch, ZkClient } from '../client/index.js';
import type { Listeners } from '../client/listeners.js';
import { abortable, MAX_TIMER, onAbort, sleep, whenSettled } from '../client/sleep.js';
import { checkOptions } from '../client/validation.js';
import { WaitTimeoutError } from './errors.js';
import { WAIT_RULES } from './lease.js';
import { cancelled } from './waiter.js';

/**
 * The options of a wait.
 *
 * @publicApi
 */
export interface WaitOptions {
  /**
   * Milliseconds to wait, also while there is no connection. 0 does not wait, but its requests may take up to 2 seconds.
   * Default Infinity.
   */
  wait?: number | undefined;
  /** Cancels the wait with a {@link WaitCancelledError}. Default: none. */
  signal?: AbortSignal | undefined;
}

/** Milliseconds. The limit of the requests of a wait with `wait: 0`, and of their wait for the connection. */
const IMMEDIATE_LIMIT = 2000;

/** Describes the wait in error messages. */
interface WaitDescription {
  readonly noun: 'barrier' | 'cache' | 'queue' | 'znode';
  readonly key: string;
  /** The message of the timeout, before the duration. */
  readonly failure: string;
  /** What the caller can do after a timeout, which ends the message. Default: none. */
  readonly remedy?: string;
  /** Returns the error of a timeout. Default: a WaitTimeoutError. */
  readonly timedOut?: (wait: number) => Error | undefined;
}

/** The limit of a wait: its timeout and its signals. They also end its requests and its waits for the connection. */
export class WaitLimit {
  /** Aborts when the limit is reached. The reason is the error for the caller. */
  readonly signal: AbortSignal;
  private readonly isImmediate: boolean;
  private readonly cleanUps: (() => void)[];

  /** @param stopping ends the wait with its reason */
  private constructor(
    private readonly description: WaitDescription,
    { wait = Infinity, signal }: WaitOptions,
    stopping: AbortSignal | undefined,
  ) {
    const limit = new AbortController();
    this.signal = limit.signal;
    this.isImmediate = wait === 0;
    this.cleanUps = [
      onAbort(stopping, () => limit.abort(stopping!.reason)),
      onAbort(signal, () => limit.abort(cancelled(description, signal!))),
    ];
    if (wait !== Infinity) {
      const timeout = Math.min(wait || IMMEDIATE_LIMIT, MAX_TIMER);
      const timer = setTimeout(() => limit.abort(this.timedOut(wait)), timeout);
      this.cleanUps.push(() => clearTimeout(timer));
    }
  }

  /**
   * Runs `work` with a limit.
   *
   * @throws BadOptionError if an option is invalid; what `work` throws
   */
  static async run<T>(
    description: WaitDescription,
    options: WaitOptions,
    stopping: AbortSignal | undefined,
    work: (limit: WaitLimit) => Promise<T>,
  ): Promise<T> {
    checkOptions(options, WAIT_RULES);
    const limit = new WaitLimit(description, options, stopping);
    try {
      limit.check();
      return await work(limit);
    } finally {
      for (const cleanUp of limit.cleanUps) cleanUp();
    }
  }

  /** @throws the reason of the signal if the limit is reached */
  check(): void {
    this.signal.throwIfAborted();
  }

  /** Resolves to the current session once it is connected. */
  session(client: ZkClient): Promise<Session> {
    return abortable(client.session({ signal: this.signal }), this.signal);
  }

  /** Resolves with the reply to a request. A reply after the limit is ignored. */
  reply<T>(request: Promise<T>): Promise<T> {
    return abortable(request, this.signal);
  }

  /** As {@link reply}. A watch that is set after the limit is removed. */
  watched<T extends { readonly watch: Watch } | undefined>(read: Promise<T>): Promise<T> {
    const reply = this.reply(read);
    const removeLate = (late: T) => {
      if (this.signal.aborted) late?.watch.remove();
    };
    read.then(removeLate, () => {});
    return reply;
  }

  /**
   * Waits until the watch fires, and removes it. With `wait: 0` it does not wait.
   *
   * @param lost also ends the wait
   * @throws the reason of the limit or of `lost`
   */
  async waitFor(watch: Watch, lost?: AbortSignal): Promise<void> {
    try {
      await this.pause(whenSettled(watch.fired), lost);
    } finally {
      watch.remove();
    }
  }

  /** Waits until `isDone` returns true, which is called after each progress. With `wait: 0` it is called once. */
  async waitUntil(isDone: () => boolean, progress: Listeners<void>): Promise<void> {
    while (!isDone()) await this.pause((wake) => progress.add(wake));
  }

  private async pause(until: (wake: () => void) => () => void, lost?: AbortSignal): Promise<void> {
    if (this.isImmediate) throw this.timedOut(0);
    await sleep(MAX_TIMER, { signals: [this.signal, lost], until, ref: true });
  }

  private timedOut(wait: number): Error {
    const { failure, key, remedy, timedOut } = this.description;
    const advice = remedy === undefined ? '' : `: ${remedy}`;
    return (
      timedOut?.(wait) ?? new WaitTimeoutError(`${failure} within ${wait} ms${advice}`, { key })
    );
  }
}
