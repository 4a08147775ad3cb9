import type { Waiter } from './waiter.js';

type Try = Pick<Waiter<unknown>, 'blocked' | 'blockedBriefly'>;

/**
 * The tries (acquires with `wait: 0`) that wait for one znode of this process. A listing of the queue decides about the
 * tries that began before it was requested. A later try needs another listing.
 */
export class Tries {
  /** The number of the try that began last. Read it before the queue is listed. */
  latest = 0;
  private readonly numbers = new Map<Try, number>();
  private onTry: (() => void) | undefined;

  get size(): number {
    return this.numbers.size;
  }

  add(waiter: Try): void {
    this.numbers.set(waiter, ++this.latest);
    this.onTry?.();
  }

  delete(waiter: Try): void {
    this.numbers.delete(waiter);
  }

  /** Returns the tries up to a number. */
  upTo(latest: number): Try[] {
    return [...this.numbers].filter(([, number]) => number <= latest).map(([waiter]) => waiter);
  }

  /** Resolves when a try with a higher number begins. */
  after(latest: number): Promise<void> {
    return new Promise((resolve) => {
      if (this.latest > latest) resolve();
      else this.onTry = resolve;
    });
  }
}
