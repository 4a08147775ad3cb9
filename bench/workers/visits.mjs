import { writeFile } from 'node:fs/promises';

const ROWS = 65_536;

/**
 * Noted visits: 4 columns of 8 bytes, for ../exclusion.mjs. By pieces, since to copy what is there into
 * something larger would stop a hot lock for longer than it may be held.
 */
export class Visits {
  #pieces = [];
  #tokens;
  #numbers;
  #row = ROWS;

  add(token, entered, left, key) {
    if (this.#row === ROWS) this.#grow();
    const at = 4 * this.#row++;
    this.#tokens[at] = token;
    this.#numbers[at + 1] = entered;
    this.#numbers[at + 2] = left;
    this.#numbers[at + 3] = key;
  }

  async save(file) {
    const full = this.#pieces.map((piece) => new Uint8Array(piece));
    const last = full.pop();
    await writeFile(file, last ? [...full, last.subarray(0, 32 * this.#row)] : '');
  }

  #grow() {
    const piece = new ArrayBuffer(32 * ROWS);
    this.#pieces.push(piece);
    this.#tokens = new BigInt64Array(piece);
    this.#numbers = new Float64Array(piece);
    this.#row = 0;
  }
}
