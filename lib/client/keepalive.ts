import { detached } from './listeners.js';
import type { SessionDeadline } from './session-deadline.js';
import type { Reply } from './transport/transport.js';

interface KeepAliveCallbacks {
  /** Returns false once the session is over; ends it if its deadline has passed. */
  isAlive(): boolean;
  /** Sends a sync. Returns false if there is no connection. */
  sync(reply: Reply<void>): boolean;
  /** Called when a sync of the keep-alive has had no reply for two ticks. */
  stalled(): void;
}

/** How many ticks there are in a session timeout. */
const TICKS = 8;
/**
 * How many ticks a sync may stay unanswered. The connection to a server that stalls is dropped three ticks after the
 * last request that it replied to, at the latest. Three more ticks are left then to try other servers before the
 * session counts as lost. The limit is in ticks and not in time: after the process was paused, the reply may wait in
 * the socket, and only one tick has passed.
 */
const MAX_UNANSWERED_TICKS = 2;

/**
 * The two timers of a session: one sends a sync, which only the leader answers, when no other answer has extended the
 * deadline; one checks the deadline.
 */
export class KeepAlive {
  #syncTimer: NodeJS.Timeout | undefined;
  #deadlineTimer: NodeJS.Timeout | undefined;
  /** How many ticks the pending sync is unanswered; undefined if none is pending. */
  #unanswered: number | undefined;

  constructor(
    private readonly deadline: SessionDeadline,
    private readonly session: KeepAliveCallbacks,
  ) {}

  /** Starts the timers again, for a new connection. */
  start(sessionTimeout: number): void {
    this.stop();
    this.#unanswered = undefined;
    const tick = sessionTimeout / TICKS;
    detached(() => {
      this.#syncTimer = setInterval(() => this.#tick(tick), tick).unref();
      this.#checkAtDeadline();
    });
  }

  stop(): void {
    clearInterval(this.#syncTimer);
    clearTimeout(this.#deadlineTimer);
  }

  #tick(interval: number): void {
    // Timers stop while the machine sleeps, so the deadline may have passed before its timer fires.
    if (!this.session.isAlive()) return;
    if (this.#unanswered !== undefined) {
      if (++this.#unanswered >= MAX_UNANSWERED_TICKS) this.session.stalled();
      return;
    }
    if (this.deadline.age < interval / 2) return;
    const reply = this.deadline.extendedBy<void>(() => (this.#unanswered = undefined));
    if (this.session.sync(reply)) this.#unanswered = 0;
  }

  #checkAtDeadline(): void {
    const check = () => {
      if (this.session.isAlive()) this.#checkAtDeadline();
    };
    const delay = Math.max(1, Math.ceil(this.deadline.left));
    this.#deadlineTimer = setTimeout(check, delay).unref();
  }
}
