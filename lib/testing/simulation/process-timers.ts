import type { ProcessClocks } from './process-clocks.js';
import type { Random } from './random.js';
import type { Actor, Event, Scheduler } from './scheduler.js';
import type { TimerOwner, VirtualTimer } from './virtual-timer.js';

/** The greatest number of virtual milliseconds before the next turn of an event loop. */
const MAX_TURN_DELAY = 0.05;

/** The group of all immediates in the scheduler. The group of a timer is its delay, which is at least 1. */
const IMMEDIATE_GROUP = 0;

/** The timers and immediates of one process. */
export class ProcessTimers implements TimerOwner {
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

  started(timer: object): void {
    this.pending.add(timer);
  }

  ended(timer: object): void {
    this.pending.delete(timer);
  }

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
