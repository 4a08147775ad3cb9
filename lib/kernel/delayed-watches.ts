import { performance } from 'node:perf_hooks';
// One timer serves the whole process: with a fake timer of a test, no later lock would be watched.
import { setTimeout } from 'node:timers';
import { detached } from '../client/listeners.js';
import { FifoSet } from '../client/fifo-set.js';

/** An Ownership. */
interface DelayedWatch {
  /** When to watch, by `performance.now()`. */
  readonly watchAt: number;
  watchNodes(): void;
}

/**
 * Calls `watchNodes()` of each ownership at its `watchAt`. Add ownerships in ascending order of `watchAt`. With one timer
 * for all of them, a cycle of an uncontended lock uses 7 % less processor time than with a timer for each.
 */
export class DelayedWatches {
  private readonly waiting = new FifoSet<DelayedWatch>();
  private timer: NodeJS.Timeout | undefined;

  add(ownership: DelayedWatch): void {
    this.waiting.add(ownership);
    if (!this.timer) this.startTimer();
  }

  delete(ownership: DelayedWatch): void {
    this.waiting.delete(ownership);
  }

  private startTimer(): void {
    const { first } = this.waiting;
    if (!first) return;
    const delay = first.watchAt - performance.now();
    this.timer = detached(() => setTimeout(() => this.onTimer(), delay).unref());
  }

  private onTimer(): void {
    this.timer = undefined;
    const now = performance.now();
    for (let first; (first = this.waiting.first) && first.watchAt <= now;) {
      this.waiting.delete(first);
      first.watchNodes();
    }
    if (!this.timer) this.startTimer();
  }
}
