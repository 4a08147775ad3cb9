import { uptime } from 'node:os';
// Fake timers of test runners replace the global `performance`: time that a test skips must not end a session.
import { performance } from 'node:perf_hooks';
import { ErrorCode } from '../protocol/codes.js';
import { detached } from './listeners.js';
import type { Reply } from './transport/transport.js';

/** A moment on two clocks: the monotonic one may stop while the machine sleeps, the wall clock may be set. */
export interface Instant {
  readonly monotonic: number;
  readonly wall: number;
}

export function instant(): Instant {
  return { monotonic: performance.now(), wall: Date.now() };
}

/**
 * Returns by how many milliseconds the time since the start of the machine, which includes sleep, exceeds the monotonic clock: exact
 * to one second on macOS and to some milliseconds elsewhere. Undefined if the operating system does not report it.
 */
function bootOffset(): number | undefined {
  try {
    return uptime() * 1000 - performance.now();
  } catch {
    return undefined;
  }
}

/** If the clocks differ by more milliseconds, the wall clock was set, or the machine was asleep. */
const MAX_DRIFT = 100;

/**
 * Returns the milliseconds since an instant, including those for which the machine was asleep. With `earlierOffset`, a wall
 * clock that was set has no influence. A virtual machine that was suspended by its host cannot know for how long; only
 * its monotonic clock counts.
 *
 * @param earlierOffset the boot offset at the instant or before; without it, the clock that advanced more counts
 */
export function elapsed(since: Instant, earlierOffset?: number): number {
  const monotonic = performance.now() - since.monotonic;
  const wall = Date.now() - since.wall;
  if (earlierOffset !== undefined && Math.abs(wall - monotonic) > MAX_DRIFT) {
    const offset = bootOffset();
    if (offset !== undefined) return monotonic + Math.max(0, offset - earlierOffset);
  }
  return Math.max(monotonic, wall);
}

/**
 * The time until which a session is known to be alive. A disconnected client is not informed when its session
 * expires, so it computes the time itself: the leader expires a session at the earliest one session timeout after the
 * last request that it answered, and it received that request after the client sent it. A quarter of the timeout is a
 * margin for clocks that run at different rates.
 */
export class SessionDeadline {
  /** As old as the session, so that no sleep is missed. */
  readonly #bootOffset = bootOffset();
  #latest: Instant;
  #limit = Infinity;

  constructor(sentAt: Instant) {
    this.#latest = sentAt;
  }

  /** @param sessionTimeout as granted by the server, milliseconds */
  setSessionTimeout(sessionTimeout: number): void {
    this.#limit = sessionTimeout * 0.75;
  }

  /** Extends the deadline, because the leader knew the session when it answered a request that was sent at that instant. */
  extend(sentAt: Instant): void {
    if (sentAt.monotonic > this.#latest.monotonic) this.#latest = sentAt;
  }

  /**
   * Returns `reply` for a request that is sent now and that the leader answers: a write or a sync. Its answer extends the
   * deadline. A read does not: a follower without a leader answers reads for up to `syncLimit` ticks, and meanwhile the
   * leader may expire the session.
   */
  extendedBy<T>(reply: Reply<T>): Reply<T> {
    const sentAt = instant();
    return (code, result) => {
      if (isAnswer(code)) this.extend(sentAt);
      reply(code, result);
    };
  }

  /** Milliseconds since the latest request that the leader answered was sent. */
  get age(): number {
    return elapsed(this.#latest, this.#bootOffset);
  }

  /** Milliseconds until the deadline; 0 or less: the session is lost. Infinity before the first connection. */
  get left(): number {
    return this.#limit - elapsed(this.#latest, this.#bootOffset);
  }
}

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

/** Codes below -100 that do not come from a server, or do not prove that the session was alive. */
const NO_ANSWERS: readonly number[] = [
  ErrorCode.closing,
  ErrorCode.sessionExpired,
  ErrorCode.authFailed,
  ErrorCode.sessionMoved,
  ErrorCode.throttled,
  ErrorCode.sessionClosedRequireAuth,
];
const SERVER_SYSTEM_ERRORS: readonly number[] = [
  ErrorCode.marshallingError,
  ErrorCode.unimplemented,
  ErrorCode.badArguments,
];

/** Returns whether a server sent this result code, which proves that the session was alive when it received the request. */
export function isAnswer(code: number): boolean {
  if (code === ErrorCode.ok || SERVER_SYSTEM_ERRORS.includes(code)) return true;
  return code <= -100 && !NO_ANSWERS.includes(code);
}
