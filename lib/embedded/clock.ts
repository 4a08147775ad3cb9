/** The server's time, which tests may let leap ahead. */
export class Clock {
  constructor(public skipped = 0) {}

  /** Milliseconds, monotonic: what sessions live by. */
  now(): number {
    return performance.now() + this.skipped;
  }

  /** Milliseconds since 1970: what znodes carry. */
  time(): number {
    return Date.now() + Math.floor(this.skipped);
  }
}
