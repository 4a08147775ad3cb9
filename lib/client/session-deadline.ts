import { isAnswer } from './reply-errors.js';
import type { Reply } from './transport/transport.js';

/** A moment on two clocks: the monotonic one stops while the machine sleeps, the wall clock may be set. */
export interface Instant {
  readonly monotonic: number;
  readonly wall: number;
}

export function instant(): Instant {
  return { monotonic: performance.now(), wall: Date.now() };
}

/** Returns the milliseconds since an instant by the clock that counted more. */
export function elapsed(since: Instant): number {
  return Math.max(performance.now() - since.monotonic, Date.now() - since.wall);
}

/**
 * The time until which a session is known to be alive. A disconnected client is not informed when its session
 * expires, so it computes the time itself: the ensemble expires a session at the earliest one session
 * timeout after the last request that it received, and it received that request after the client sent
 * it. A quarter of the timeout is a margin for clocks that run at different rates.
 */
export class SessionDeadline {
  #latest: Instant;
  #limit = 0;

  constructor(sentAt: Instant) {
    this.#latest = sentAt;
  }

  /** @param sessionTimeout as granted by the server, milliseconds */
  setSessionTimeout(sessionTimeout: number): void {
    this.#limit = sessionTimeout * 0.75;
  }

  /** Extends the deadline, because a server answered a request that was sent at that instant. */
  extend(sentAt: Instant): void {
    if (sentAt.monotonic > this.#latest.monotonic) this.#latest = sentAt;
  }

  /** Returns `reply` for a request that is sent now. If a server answers the request, it extends the deadline. */
  extendedBy<T>(reply: Reply<T>): Reply<T> {
    const sentAt = instant();
    return (code, result) => {
      if (isAnswer(code)) this.extend(sentAt);
      reply(code, result);
    };
  }

  /** Milliseconds since the latest answered request was sent. */
  get age(): number {
    return elapsed(this.#latest);
  }

  /** Milliseconds until the deadline; 0 or less: the session is lost. */
  get left(): number {
    return this.#limit - elapsed(this.#latest);
  }
}
