import { detached } from './listeners.js';
import { isAnswer } from './reply-errors.js';
import { Code, type Transport } from './transport/transport.js';

interface VigilDuties {
  /** Evaluates the clock; false once the session is over. */
  isAlive(): boolean;
  /** The present one. */
  transport(): Transport | undefined;
  /** The server took a read and does not answer. */
  stalled(): void;
}

/**
 * How many ticks a read may stay unanswered. The native client would notice only after ⅔ of the session
 * timeout, too late to find another server before the session counts as lost. Ticks, not time: after a
 * pause of our own the answer may lie in the socket, unread, and only one tick has passed.
 */
const PATIENCE = 2;

/** The two timers of a session: one keeps its clock fresh while nothing else is sent, one looks when it runs out. */
export class Vigil {
  readonly #clock: LostClock;
  readonly #duties: VigilDuties;
  #readTimer: NodeJS.Timeout | undefined;
  #lostTimer: NodeJS.Timeout | undefined;
  /** Ticks that the present read has waited for its answer. */
  #unanswered: number | undefined;

  constructor(clock: LostClock, duties: VigilDuties) {
    this.#clock = clock;
    this.#duties = duties;
  }

  /** With each new connection. */
  start(sessionTimeout: number): void {
    this.stop();
    this.#unanswered = undefined;
    detached(() => {
      this.#readTimer = setInterval(() => this.#read(sessionTimeout), sessionTimeout / 6).unref();
      this.#look();
    });
  }

  stop(): void {
    clearInterval(this.#readTimer);
    clearTimeout(this.#lostTimer);
  }

  #read(sessionTimeout: number): void {
    // A machine that woke up finds out here: timers sleep with it.
    if (!this.#duties.isAlive()) return;
    if (this.#unanswered !== undefined) {
      if (++this.#unanswered >= PATIENCE) this.#duties.stalled();
      return;
    }
    if (this.#clock.age < sessionTimeout / 8) return;
    const sentAt = instant();
    const sent = this.#duties.transport()?.exists('/', false, (code) => {
      this.#unanswered = undefined;
      if (isAnswer(code)) this.#clock.answered(sentAt);
    });
    if (sent) this.#unanswered = 0;
  }

  #look(): void {
    const look = () => {
      if (this.#duties.isAlive()) this.#look();
    };
    this.#lostTimer = setTimeout(look, Math.max(1, Math.ceil(this.#clock.left))).unref();
  }
}

/** Whether the server of a connection answers a light read in so many milliseconds. */
export function answersWithin(limit: number, transport: Transport): Promise<boolean> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, limit, false);
    const settle = (code: number) => {
      clearTimeout(timer);
      resolve(isAnswer(code));
    };
    if (!transport.exists('/', false, settle)) settle(Code.ConnectionLoss);
  });
}

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
