import { uptime } from 'node:os';
import { ProcessState } from './process-state.js';
import { ErrorCode } from '../protocol/index.js';
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
   * elsewhere. Infinity if the operating system does not tell.
   */
  get asleep(): number {
    const now = bootOffset();
    return now === undefined || this.#start === undefined ? Infinity : now - this.#start;
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

const sleepClock = new ProcessState(() => new SleepClock());

/** A wall clock that gains more milliseconds than this was set, or the machine was asleep. */
const MAX_DRIFT = 100;

/**
 * Returns the milliseconds since an instant, sleep of the machine included. A wall clock that was set does not count,
 * unless the operating system does not tell for how long the machine was asleep. A virtual machine that its host has
 * suspended cannot tell that either; its monotonic clock counts.
 */
export function elapsed(since: Instant, clock = sleepClock.current): number {
  const monotonic = performance.now() - since.monotonic;
  const wall = Date.now() - since.wall;
  if (wall <= monotonic + MAX_DRIFT) return Math.max(monotonic, wall);
  return Math.min(wall, monotonic + Math.max(0, clock.asleep));
}

/**
 * The time until which a session is known to be alive. A disconnected client is not informed when its session
 * expires, so it computes the time itself: the ensemble expires a session at the earliest one session
 * timeout after the last request that it received, and it received that request after the client sent
 * it. A quarter of the timeout is a margin for clocks that run at different rates.
 */
export class SessionDeadline {
  /** As old as the session, so that no sleep is missed. */
  readonly #sleepClock = sleepClock.current;
  #latest: Instant;
  #limit = Infinity;

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
