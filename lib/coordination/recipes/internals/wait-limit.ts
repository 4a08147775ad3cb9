import type { Watch } from '../../../client/index.js';
import { MAX_TIMER, sleep } from '../../../client/sleep.js';
import { LockTimeoutError } from '../../../recipes/errors.js';
import { cancelled } from '../../../recipes/internals/waiter.js';
import { type AcquireOptions, checkAcquire, WAIT_OPTIONS } from '../../../recipes/lease.js';

/**
 * The options of a wait.
 *
 * @publicApi
 */
export type WaitOptions = Pick<AcquireOptions, 'wait' | 'signal'>;

/** The end of a wait at a barrier: its timeout and its signals. */
export class WaitLimit {
  readonly signal: AbortSignal | undefined;
  private readonly wait: number;
  private readonly deadline: number;

  /**
   * @param key the path of the barrier
   * @param stopping ends the wait with its reason
   */
  constructor(
    private readonly key: string,
    options: WaitOptions,
    private readonly stopping: AbortSignal | undefined,
  ) {
    checkAcquire(options, WAIT_OPTIONS);
    const { wait = Infinity, signal } = options;
    this.wait = wait;
    this.deadline = performance.now() + wait;
    this.signal = signal;
    this.check();
  }

  /** @throws WaitCancelledError or the reason of `stopping`, if a signal has aborted */
  check(): void {
    this.stopping?.throwIfAborted();
    if (this.signal?.aborted) throw cancelled({ noun: 'barrier', key: this.key }, this.signal);
  }

  /**
   * Waits until the watch fires, and removes it.
   *
   * @param lost also ends the wait
   * @throws LockTimeoutError, WaitCancelledError, or the reason of `stopping` or `lost`
   */
  async until(watch: Watch, lost?: AbortSignal): Promise<void> {
    let fired = false;
    void watch.fired.then(() => (fired = true));
    try {
      while (!fired) {
        const left = this.deadline - performance.now();
        if (left <= 0) throw this.timedOut();
        const signals = [this.signal, this.stopping, lost];
        const until = (wake: () => void) => {
          void watch.fired.then(wake);
          return () => {};
        };
        // It rejects only by a signal.
        await sleep(Math.min(left, MAX_TIMER), { signals, until, ref: true }).catch(() => {});
        this.check();
        lost?.throwIfAborted();
      }
    } finally {
      watch.remove();
    }
  }

  private timedOut(): LockTimeoutError {
    const { key, wait } = this;
    return new LockTimeoutError(`the wait at barrier ${key} was not over within ${wait} ms`, {
      key,
    });
  }
}
