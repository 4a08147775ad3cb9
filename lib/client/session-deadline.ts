import { uptime } from 'node:os';
// Fake timers of test runners replace the global `performance`: time that a test skips must not end a session.
import { performance } from 'node:perf_hooks';
import { ErrorCode } from '../protocol/codes.js';
import type { Reply } from './transport/transport.js';

/** A moment on two clocks: the monotonic one may stop while the machine sleeps, the wall clock may be set. */
export interface Instant {
  readonly monotonic: number;
  readonly wall: number;
}

export function instant(): Instant {
  return { monotonic: performance.now(), wall: Date.now() };
}

/** Measures for how long the machine is asleep. */
class SleepClock {
  readonly #start = bootOffset();

  /**
   * The milliseconds of sleep since this object was created, exact to one second on macOS and to some milliseconds
   * elsewhere. Undefined if the operating system does not report it.
   */
  get asleep(): number | undefined {
    const now = bootOffset();
    return now === undefined || this.#start === undefined ? undefined : now - this.#start;
  }
}

/** Returns by how much the time since the start of the machine, which includes sleep, exceeds the monotonic clock. */
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
 * Returns the milliseconds since an instant, including those for which the machine was asleep. With a sleep clock, a wall
 * clock that was set has no influence. A virtual machine that was suspended by its host cannot know for how long; only
 * its monotonic clock counts.
 *
 * @param sleepClock is as old as the instant or older; without it, the clock that advanced more counts
 */
export function elapsed(since: Instant, sleepClock?: SleepClock): number {
  const monotonic = performance.now() - since.monotonic;
  const wall = Date.now() - since.wall;
  const asleep = Math.abs(wall - monotonic) > MAX_DRIFT ? sleepClock?.asleep : undefined;
  return asleep === undefined ? Math.max(monotonic, wall) : monotonic + Math.max(0, asleep);
}

/**
 * The time until which a session is known to be alive. A disconnected client is not informed when its session
 * expires, so it computes the time itself: the leader expires a session at the earliest one session timeout after the
 * last request that it answered, and it received that request after the client sent it. A quarter of the timeout is a
 * margin for clocks that run at different rates.
 */
export class SessionDeadline {
  /** As old as the session, so that no sleep is missed. */
  readonly #sleepClock = new SleepClock();
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
    return elapsed(this.#latest, this.#sleepClock);
  }

  /** Milliseconds until the deadline; 0 or less: the session is lost. Infinity before the first connection. */
  get left(): number {
    return this.#limit - elapsed(this.#latest, this.#sleepClock);
  }
}

/** Codes below -100 that do not come from a server, or do not prove that the session was alive. */
const NO_ANSWERS: readonly number[] = [
  ErrorCode.closing,
  ErrorCode.sessionExpired,
  ErrorCode.authFailed,
  ErrorCode.sessionMoved,
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
