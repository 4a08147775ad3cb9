import { AsyncResource } from 'node:async_hooks';
import type { Random } from './random.js';
import type { Actor, Event, Scheduler } from './scheduler.js';

/** The shortest delay of a timer in virtual milliseconds, also if the rounded due time is earlier. */
const MIN_TIMER_DELAY = 0.001;

/** The time at which every virtual wall clock starts: 2026-01-01T00:00:00Z. */
export const WALL_CLOCK_START = Date.UTC(2026, 0, 1);

/** The greatest number of virtual milliseconds before the next turn of an event loop. */
const MAX_TURN_DELAY = 0.05;

/** The group of all immediates in the scheduler. The group of a timer is its delay, which is at least 1. */
const IMMEDIATE_GROUP = 0;

/** The greatest delay of a timer in Node, in milliseconds. Node replaces a greater delay with 1 ms. */
const MAX_DELAY = 2 ** 31 - 1;

/** The clocks of one process. */
export class ProcessClocks {
  #wallClockStep = 0;
  /** Virtual milliseconds for which the machine has been asleep. */
  #timeAsleep = 0;
  #asleepSince: number | undefined;

  constructor(
    private readonly scheduler: Scheduler,
    /** The rate of all clocks of the process. A clock of rate 1.01 gains one per cent. */
    readonly rate: number,
  ) {}

  /** Stops the monotonic clock until {@link wakeUp}. */
  fallAsleep(): void {
    this.#asleepSince = this.scheduler.time;
  }

  /** Continues after {@link fallAsleep}, if the machine is asleep. */
  wakeUp(): void {
    if (this.#asleepSince !== undefined)
      this.#timeAsleep += this.scheduler.time - this.#asleepSince;
    this.#asleepSince = undefined;
  }

  /** Moves the wall clock forward by `ms` milliseconds, or back if `ms` is negative. */
  stepWallClock(ms: number): void {
    this.#wallClockStep += ms;
  }

  /** The milliseconds for which the machine has been asleep, by the clock of the process. */
  get timeAsleep(): number {
    return this.#timeAsleep * this.rate;
  }

  /** Returns the milliseconds since a virtual time, by the clock of the process, sleep included. */
  since(time: number): number {
    return (this.scheduler.time - time) * this.rate;
  }

  /** Returns the value of `performance.now()`. */
  monotonicTime(): number {
    return (this.scheduler.readClock() - this.#timeAsleep) * this.rate;
  }

  /** Returns the value of `os.uptime()`, in milliseconds. */
  bootTime(): number {
    return this.scheduler.readClock() * this.rate;
  }

  /** Returns the value of `Date.now()`. */
  wallTime(): number {
    return WALL_CLOCK_START + Math.floor(this.bootTime() + this.#wallClockStep);
  }

  /**
   * Returns the virtual time at which a timer fires that starts now.
   *
   * @param delay milliseconds by the clock of the process
   */
  dueTime(delay: number): number {
    const { time } = this.scheduler;
    // Node rounds the start of a timer down to a whole millisecond, so a timer may fire almost 1 ms early.
    const due = Math.floor(time * this.rate) + delay;
    return Math.max(due / this.rate, time + MIN_TIMER_DELAY);
  }
}

/** The timers and immediates of one process. */
export class ProcessTimers {
  /** The timers that the code has converted to numbers, by these numbers. */
  readonly byId = new Map<number, VirtualTimer>();
  lastId = 0;
  /** The timers that have not fired, immediates included. */
  readonly pending = new Set<object>();
  #nextTurn = 0;

  constructor(
    private readonly process: Actor,
    private readonly scheduler: Scheduler,
    private readonly random: Random,
    readonly clocks: ProcessClocks,
  ) {}

  /**
   * Schedules the callback of a timer or immediate.
   *
   * @param delay milliseconds by the clock of the process; undefined for an immediate
   */
  schedule(delay: number | undefined, fire: () => void): Event {
    const { process, scheduler, random } = this;
    const { time } = scheduler;
    if (delay === undefined) {
      // All waiting immediates run in the same turn. Immediates that they start run in the turn after it.
      if (this.#nextTurn <= time) this.#nextTurn = time + random.next() * MAX_TURN_DELAY;
      return scheduler.schedule(process, this.#nextTurn, 'immediate', fire, {
        group: IMMEDIATE_GROUP,
      });
    }
    return scheduler.schedule(process, this.clocks.dueTime(delay), 'timer', fire, {
      group: delay,
    });
  }
}

/** A timeout, interval or immediate of a simulated process. It has the methods of Node's timers. */
export class VirtualTimer {
  readonly #resource = new AsyncResource('VirtualTimer', { requireManualDestroy: true });
  #event: Event | undefined;
  #ref = true;
  #id: number | undefined;
  /** For how long the machine had been asleep when the timer started. A timer stands still while the machine sleeps. */
  #sleptBefore = 0;
  /** The virtual time at which it fires if the machine does not sleep. */
  #due = 0;

  /** @param delay milliseconds; undefined for an immediate */
  constructor(
    private readonly owner: ProcessTimers,
    private readonly callback: (...args: unknown[]) => unknown,
    private readonly args: unknown[],
    private readonly delay: number | undefined,
    private readonly repeats: boolean,
  ) {
    this.#schedule();
  }

  ref(): this {
    this.#ref = true;
    return this;
  }

  unref(): this {
    this.#ref = false;
    return this;
  }

  hasRef(): boolean {
    return this.#ref;
  }

  refresh(): this {
    this.#cancel();
    this.#schedule();
    return this;
  }

  close(): this {
    this.#cancel();
    if (this.#id !== undefined) this.owner.byId.delete(this.#id);
    return this;
  }

  [Symbol.toPrimitive](): number {
    this.#id ??= this.owner.lastId += 1;
    this.owner.byId.set(this.#id, this);
    return this.#id;
  }

  [Symbol.dispose](): void {
    this.close();
  }

  #schedule(): void {
    this.owner.pending.add(this);
    this.#sleptBefore = this.owner.clocks.timeAsleep;
    this.#scheduleEvent(this.delay);
  }

  #scheduleEvent(delay: number | undefined): void {
    this.#event = this.owner.schedule(delay, () => this.#fire());
    this.#due = this.#event.at;
  }

  #cancel(): void {
    if (!this.#event) return;
    this.#event.cancelled = true;
    this.#event = undefined;
    this.owner.pending.delete(this);
  }

  #fire(): void {
    const slept = this.owner.clocks.timeAsleep - this.#sleptBefore;
    if (slept > 0 && this.delay !== undefined) {
      // A timer that came due during the sleep fires late, and has stood still for the rest of the sleep only.
      const remaining = slept - this.owner.clocks.since(this.#due);
      this.#sleptBefore += slept;
      if (remaining > 0) return this.#scheduleEvent(remaining);
    }
    // As in Node, the next delay of an interval starts before the callback runs.
    if (this.repeats) this.refresh();
    else this.close();
    this.#resource.runInAsyncScope(this.callback, this, ...this.args);
  }
}

/** Returns the timer for an argument of `clearTimeout`; undefined for a timer of the real event loop. */
export function findTimer(handle: unknown, owner: ProcessTimers): VirtualTimer | undefined {
  if (handle instanceof VirtualTimer) return handle;
  return typeof handle === 'number' || typeof handle === 'string'
    ? owner.byId.get(Number(handle))
    : undefined;
}

/** Returns the delay that Node uses for an argument: whole milliseconds, and 1 for a value that is out of range. */
export function toDelay(delay: unknown): number {
  const milliseconds = Number(delay);
  if (!(milliseconds >= 1 && milliseconds <= MAX_DELAY)) return 1;
  return Math.trunc(milliseconds);
}
