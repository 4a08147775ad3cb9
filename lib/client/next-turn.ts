import { detached } from './detached.js';

/** Work for the next turn of the event loop, in its order and in nobody's asynchronous context. */
export class NextTurn {
  #queue: (() => void)[] = [];

  /** One immediate serves all that is queued before it runs. */
  add(work: () => void): void {
    if (this.#queue.push(work) === 1) detached(() => setImmediate(() => this.#drain()));
  }

  #drain(): void {
    const batch = this.#queue;
    this.#queue = [];
    for (const work of batch) work();
  }
}
