/** Numbers that look random and are the same for the same seed (mulberry32). */
export class Random {
  #state;

  constructor(seed) {
    this.#state = seed >>> 0;
  }

  /** From 0 up to, not including, 1. */
  next() {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let mixed = this.#state;
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }

  between(low, high) {
    return low + (high - low) * this.next();
  }

  whole(low, high) {
    return Math.floor(this.between(low, high + 1));
  }

  of(list) {
    return list[Math.floor(this.next() * list.length)];
  }
}
