import { writeFile } from 'node:fs/promises';
import { now } from '../clock.mjs';
import { Samples } from './samples.mjs';

/**
 * The critical section behind each key: counts who is inside, and where there is a file for it notes
 * each visit, with its token and times, for ../exclusion.mjs to compare with those of other processes.
 */
export class Sections {
  violations = 0;
  #inside = new Map();
  #capacity;
  #log;

  /** @param capacity of one section; a visit takes as much of it as its weight says */
  constructor(capacity, file) {
    this.#capacity = capacity;
    if (file === undefined) return;
    const columns = [Samples, Samples, Samples, Samples];
    const types = [BigInt64Array, Float64Array, Float64Array, Float64Array];
    this.#log = { file, columns: columns.map((Column, index) => new Column(types[index])) };
  }

  /** Resolves with when it began. It lasts over a turn: whoever else is let in meanwhile is seen. */
  async visit(key, weight = 1, token = 0n) {
    const entered = now();
    const inside = (this.#inside.get(key) ?? 0) + weight;
    if (inside > this.#capacity) this.violations++;
    this.#inside.set(key, inside);
    await undefined;
    this.#inside.set(key, this.#inside.get(key) - weight);
    if (this.#log) {
      const [tokens, entries, leaves, keys] = this.#log.columns;
      tokens.add(token);
      entries.add(entered);
      leaves.add(now());
      keys.add(key);
    }
    return entered;
  }

  /** Column after column: tokens, entries, leaves, keys, each 8 bytes a visit. */
  async save() {
    if (!this.#log) return;
    const { file, columns } = this.#log;
    await writeFile(
      file,
      columns.map(({ values }) => values),
    );
  }
}
