import { now } from '../clock.mjs';
import { Visits } from './visits.mjs';

/**
 * The critical section behind each key: counts who is inside, and where there is a file for it notes
 * each visit, with its token and times, for ../exclusion.mjs to compare with those of other processes.
 */
export class Sections {
  violations = 0;
  /** By key. */
  #inside = [];
  #capacity;
  #file;
  #visits = new Visits();

  /** @param capacity of one section; a visit takes as much of it as its weight says */
  constructor(capacity, file) {
    this.#capacity = capacity;
    this.#file = file;
  }

  /** Resolves with when it began. It lasts over a turn: whoever else is let in meanwhile is seen. */
  async visit(key, weight = 1, token = 0n) {
    const entered = now();
    const inside = (this.#inside[key] ?? 0) + weight;
    if (inside > this.#capacity) this.violations++;
    this.#inside[key] = inside;
    await undefined;
    this.#inside[key] -= weight;
    if (this.#file) this.#visits.add(token, entered, now(), key);
    return entered;
  }

  async save() {
    if (this.#file) await this.#visits.save(this.#file);
  }
}
