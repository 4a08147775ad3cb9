import type { Watch, WatchEvent } from '../client/index.js';
import { abortable, type Waiter } from './wait.js';

/** Milliseconds that an acquire with `wait: 0` waits for a node that is likely to go soon. */
export const YIELD_TIME = 500;

export type Try = Pick<Waiter<unknown>, 'blocked'>;

const NONE: readonly Try[] = [];

/** The acquires with `wait: 0` that stand behind one znode of this process. */
export class Tries {
  private waiting: Try[] = [];
  /** When the wait of each for a node that is likely to go soon ends. */
  private readonly ends = new WeakMap<Try, number>();
  private onArrival: (() => void) | undefined;

  get size(): number {
    return this.waiting.length;
  }

  /** A listing that was sent before a try began proves nothing about it: the queue is listed again. */
  add(waiter: Try): void {
    this.waiting.push(waiter);
    this.onArrival?.();
  }

  delete(waiter: Try): void {
    const at = this.waiting.indexOf(waiter);
    if (at >= 0) this.waiting.splice(at, 1);
  }

  /** The tries that a listing which is sent now decides about. */
  now(): readonly Try[] {
    return this.waiting.length === 0 ? NONE : [...this.waiting];
  }

  /** Whether a try began after the listing that decides about `asked` was sent. */
  newSince(asked: readonly Try[]): boolean {
    const last = this.waiting.at(-1);
    return last !== undefined && !asked.includes(last);
  }

  refuse(tries: readonly Try[] = this.now()): void {
    for (const waiter of tries) waiter.blocked();
  }

  /**
   * Resolves with the event of a watch on the node ahead, or with undefined when the queue has to be listed
   * again before it: another try began, or a try has waited for {@link YIELD_TIME} and was refused.
   */
  async event(watch: Watch, signal: AbortSignal): Promise<WatchEvent | undefined> {
    let timer: NodeJS.Timeout | undefined;
    try {
      const sooner = new Promise<undefined>((resolve) => {
        this.onArrival = () => resolve(undefined);
        if (this.size === 0) return;
        const end = this.firstEnd();
        timer = setTimeout(() => {
          this.refuse(this.waiting.filter((waiter) => this.ends.get(waiter)! <= end));
          resolve(undefined);
        }, end - performance.now());
      });
      return await abortable(Promise.race([watch.fired, sooner]), signal);
    } finally {
      clearTimeout(timer);
      this.onArrival = undefined;
    }
  }

  private firstEnd(): number {
    const latest = performance.now() + YIELD_TIME;
    let first = latest;
    for (const waiter of this.waiting) {
      const end = this.ends.get(waiter) ?? latest;
      this.ends.set(waiter, end);
      first = Math.min(first, end);
    }
    return first;
  }
}
