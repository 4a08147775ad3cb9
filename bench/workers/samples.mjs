const INITIAL = 65_536;

/** Numbers, as many as it takes, without an object for each. */
export class Samples {
  #values;
  #sorted;
  length = 0;

  constructor(Type = Float64Array) {
    this.#values = new Type(INITIAL);
  }

  add(value) {
    if (this.length === this.#values.length) {
      const longer = new this.#values.constructor(2 * this.length);
      longer.set(this.#values);
      this.#values = longer;
    }
    this.#values[this.length++] = value;
  }

  /** In the order in which they came. */
  get values() {
    return this.#values.subarray(0, this.length);
  }

  /** The value below which a part of them lies; null where there are none. */
  percentile(part) {
    if (this.#sorted?.length !== this.length) this.#sorted = this.values.slice().sort();
    return this.#sorted[Math.max(0, Math.ceil(part * this.length) - 1)] ?? null;
  }
}
