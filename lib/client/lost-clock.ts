/** One moment on both clocks: the monotonic one stops while the machine sleeps, the wall clock may be set. */
export interface Instant {
  readonly monotonic: number;
  readonly wall: number;
}

export function instant(): Instant {
  return { monotonic: performance.now(), wall: Date.now() };
}

export function elapsed(since: Instant, until: Instant = instant()): number {
  return Math.max(until.monotonic - since.monotonic, until.wall - since.wall);
}

/**
 * How long a session can still be vouched for. A client that is cut off never hears of its expiry, so
 * it counts for itself: the ensemble cannot have expired the session earlier than one session timeout
 * after the latest request that it is known to have received, and it received that after we sent it.
 * A quarter of the timeout is kept for clocks that run unevenly.
 */
export class LostClock {
  #latest: Instant;
  #limit = 0;

  constructor(sentAt: Instant) {
    this.#latest = sentAt;
  }

  /** @param sessionTimeout as granted, milliseconds */
  setTimeout(sessionTimeout: number): void {
    this.#limit = sessionTimeout * 0.75;
  }

  /** A request sent at that moment was answered. */
  answered(sentAt: Instant): void {
    if (sentAt.monotonic > this.#latest.monotonic) this.#latest = sentAt;
  }

  /** Milliseconds since the latest request that was answered had been sent. */
  get age(): number {
    return elapsed(this.#latest);
  }

  /** Milliseconds left; none or less: the session is lost. */
  get left(): number {
    return this.leftAt(instant());
  }

  leftAt(now: Instant): number {
    return this.#limit - elapsed(this.#latest, now);
  }
}
