/**
 * A source of random numbers (mulberry32). The same seed gives the same numbers.
 *
 * @publicApi
 */
export class Random {
  #state: number;

  /** @param seed a whole number. Only its lower 32 bits are used */
  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  /** Returns a number from 0 up to, but not including, 1. */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    return mix(this.#state) / 2 ** 32;
  }

  /** Returns a number from `low` up to, but not including, `high`. */
  between(low: number, high: number): number {
    return low + (high - low) * this.next();
  }

  /** Returns a whole number from `low` to `high`, both included. */
  whole(low: number, high: number): number {
    return Math.floor(this.between(low, high + 1));
  }

  /** Returns one element of a list that is not empty. */
  pick<T>(list: readonly T[]): T {
    return list[Math.floor(this.next() * list.length)]!;
  }

  /** Returns true with the given probability, a number from 0 to 1. */
  chance(probability: number): boolean {
    return this.next() < probability;
  }

  /** Returns an independent source. Drawing from it does not change the numbers that this source returns. */
  fork(): Random {
    return new Random(this.next() * 2 ** 32);
  }
}

/**
 * A source of random numbers that is seeded again for each event. How many numbers an event draws does not change the
 * numbers of later events.
 */
export class EventRandom extends Random {
  #event = -1;
  #numbers = new Random(0);

  constructor(
    private readonly salt: number,
    private readonly eventNumber: () => number,
  ) {
    super(salt);
  }

  override next(): number {
    const event = this.eventNumber();
    if (event !== this.#event) {
      this.#event = event;
      this.#numbers = new Random(mix(mix(event) ^ this.salt));
    }
    return this.#numbers.next();
  }
}

/** Mixes the bits of a 32-bit number. */
export function mix(value: number): number {
  let mixed = value >>> 0;
  mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1);
  mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
  return (mixed ^ (mixed >>> 14)) >>> 0;
}
