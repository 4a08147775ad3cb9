import { AsyncResource } from 'node:async_hooks';
import type { SimulatedProcess } from './process.js';
import type { Event } from './scheduler.js';

/** Node's longest delay; a longer one becomes 1 ms there, and here. */
const LONGEST_DELAY = 2 ** 31 - 1;

let nextId = 1;
const byId = new Map<number, VirtualTimer>();

/** A timeout, interval or immediate of a simulated process, with the methods of Node's own. */
export class VirtualTimer {
  readonly #resource = new AsyncResource('VirtualTimer', { requireManualDestroy: true });
  #event: Event | undefined;
  #ref = true;
  #id: number | undefined;

  /** @param delay milliseconds; undefined for an immediate */
  constructor(
    private readonly process: SimulatedProcess,
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
    this.close();
    this.#schedule();
    return this;
  }

  close(): this {
    if (this.#event) {
      this.#event.cancelled = true;
      this.#event = undefined;
      this.process.timers.delete(this);
    }
    if (this.#id !== undefined) byId.delete(this.#id);
    return this;
  }

  [Symbol.toPrimitive](): number {
    this.#id ??= nextId++;
    byId.set(this.#id, this);
    return this.#id;
  }

  [Symbol.dispose](): void {
    this.close();
  }

  #schedule(): void {
    this.process.timers.add(this);
    this.#event = this.process.scheduleTimer(this.delay, () => this.#fire());
  }

  #fire(): void {
    this.close();
    // As in Node, the next turn of an interval counts from the start of this one.
    if (this.repeats) this.#schedule();
    this.#resource.runInAsyncScope(this.callback, this, ...this.args);
  }
}

/** The timer behind what a caller passes to clearTimeout; undefined where it is none of the simulation. */
export function virtualTimer(handle: unknown): VirtualTimer | undefined {
  if (handle instanceof VirtualTimer) return handle;
  return typeof handle === 'number' || typeof handle === 'string'
    ? byId.get(Number(handle))
    : undefined;
}

/** A delay as Node understands it: whole milliseconds, and 1 for what it cannot use. */
export function toDelay(delay: unknown): number {
  const milliseconds = Number(delay);
  if (!(milliseconds >= 1 && milliseconds <= LONGEST_DELAY)) return 1;
  return Math.trunc(milliseconds);
}
