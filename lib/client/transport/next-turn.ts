import { detached } from '../listeners.js';

/** Runs functions in the next turn of the event loop, in order and outside of any caller's asynchronous context. */
export class NextTurn {
  #queue: (() => void)[] = [];

  add(work: () => void): void {
    // One immediate runs everything that is queued before it.
    if (this.#queue.push(work) === 1) detached(() => setImmediate(() => this.#drain()));
  }

  #drain(): void {
    const batch = this.#queue;
    this.#queue = [];
    for (const work of batch) work();
  }
}
