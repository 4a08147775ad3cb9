import { AsyncResource } from 'node:async_hooks';
import type { Event } from './scheduler.js';

/** The greatest delay of a timer in Node, in milliseconds. Node replaces a greater delay with 1 ms. */
const MAX_DELAY = 2 ** 31 - 1;

/** The timers of the process that a timer belongs to. */
export interface TimerOwner {
  /** The timers that the code has converted to numbers, by these numbers. */
  readonly byId: Map<number, VirtualTimer>;
  lastId: number;
  readonly clocks: {
    /** The milliseconds for which the machine has been asleep, by the clock of the process. */
    readonly timeAsleep: number;
    /** Returns the milliseconds since a virtual time, by the clock of the process, sleep included. */
    since(time: number): number;
  };
  started(timer: VirtualTimer): void;
  ended(timer: VirtualTimer): void;
  /**
   * Schedules the callback of a timer or immediate.
   *
   * @param delay milliseconds by the clock of the process; undefined for an immediate
   */
  schedule(delay: number | undefined, fire: () => void): Event;
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
    private readonly owner: TimerOwner,
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
    this.owner.started(this);
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
    this.owner.ended(this);
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
export function findTimer(handle: unknown, owner: TimerOwner): VirtualTimer | undefined {
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
