import { now } from '../clock.js';
import { Visits } from './visits.js';

/**
 * The critical section behind each key. Counts violations within this process and, if there is a file,
 * records each visit with its token and times, for ../exclusion.ts to compare with other processes.
 */
export class Sections {
  violations = 0;
  /** The sum of the weights inside, by key. */
  readonly #inside: number[] = [];
  readonly #visits = new Visits();

  /** @param capacity the largest sum of weights that may be inside one section at a time */
  constructor(
    private readonly capacity: number,
    private readonly file?: string,
  ) {}

  /** Resolves with the time of entry. Lasts until the next microtask, so that concurrent visits are seen. */
  async visit(key: number, weight = 1, token = 0n): Promise<number> {
    const entered = now();
    const inside = (this.#inside[key] ?? 0) + weight;
    if (inside > this.capacity) this.violations++;
    this.#inside[key] = inside;
    await undefined;
    this.#inside[key]! -= weight;
    if (this.file) this.#visits.add(token, entered, now(), key);
    return entered;
  }

  async save(): Promise<void> {
    if (this.file) await this.#visits.save(this.file);
  }
}
