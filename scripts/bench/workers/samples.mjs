const INITIAL = 65_536;

/** A growing list of numbers in a typed array. */
export class Samples {
  #values = new Float64Array(INITIAL);
  #sorted;
  length = 0;

  add(value) {
    if (this.length === this.#values.length) {
      const longer = new Float64Array(2 * this.length);
      longer.set(this.#values);
      this.#values = longer;
    }
    this.#values[this.length++] = value;
  }

  /** Returns a percentile by the nearest rank; null if there are no values. */
  percentile(part) {
    if (this.#sorted?.length !== this.length)
      this.#sorted = this.#values.slice(0, this.length).sort();
    return this.#sorted[Math.max(0, Math.ceil(part * this.length) - 1)] ?? null;
  }
}
