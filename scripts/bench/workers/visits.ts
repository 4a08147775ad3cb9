import { writeFile } from 'node:fs/promises';

const ROWS = 65_536;

/**
 * The visits of a critical section: rows of 4 columns of 8 bytes, which ../exclusion.ts reads. Memory grows
 * by pieces, because copying all rows into a larger buffer would stop a hot lock for too long.
 */
export class Visits {
  readonly #pieces: ArrayBuffer[] = [];
  #tokens!: BigInt64Array;
  #numbers!: Float64Array;
  #row = ROWS;

  add(token: bigint, entered: number, left: number, key: number): void {
    if (this.#row === ROWS) this.#grow();
    const at = 4 * this.#row++;
    this.#tokens[at] = token;
    this.#numbers[at + 1] = entered;
    this.#numbers[at + 2] = left;
    this.#numbers[at + 3] = key;
  }

  async save(file: string): Promise<void> {
    const full = this.#pieces.map((piece) => new Uint8Array(piece));
    const last = full.pop();
    await writeFile(file, last ? [...full, last.subarray(0, 32 * this.#row)] : '');
  }

  #grow(): void {
    const piece = new ArrayBuffer(32 * ROWS);
    this.#pieces.push(piece);
    this.#tokens = new BigInt64Array(piece);
    this.#numbers = new Float64Array(piece);
    this.#row = 0;
  }
}
