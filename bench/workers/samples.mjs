const INITIAL = 65_536;

/** Numbers, as many as it takes, without an object for each. */
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

  /** The value below which a part of them lies; null where there are none. */
  percentile(part) {
    if (this.#sorted?.length !== this.length)
      this.#sorted = this.#values.slice(0, this.length).sort();
    return this.#sorted[Math.max(0, Math.ceil(part * this.length) - 1)] ?? null;
  }
}
