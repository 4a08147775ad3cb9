import { setImmediate } from 'node:timers/promises';
import { ProcessState } from '../client/process-state.js';

/** The most grants, and the most milliseconds, for which a lock stays in one process while other processes wait. */
const MAX_GRANTS = 512;
const MAX_TIME = 10;

/** Milliseconds for which locks are handed over before the process yields to the event loop, for timers and replies. */
const MAX_SLICE = 0.5;

/** The time until the handovers of all locks of this process must yield to the event loop. */
class Slice {
  private end: number | undefined;
  private yielding: Promise<void> | undefined;

  /** Returns undefined if time is left in this turn of the event loop; otherwise a promise that resolves in the next one. */
  untilYielded(): Promise<void> | undefined {
    const now = performance.now();
    if (this.end === undefined) {
      this.end = now + MAX_SLICE;
      this.yielding = setImmediate().then(() => (this.end = undefined));
    }
    return now < this.end ? undefined : this.yielding;
  }
}

const slice = new ProcessState(() => new Slice());

/** Limits how long the callers of one process hand a lock over to each other. */
export class HandoverBudget {
  private grants = 0;

  /** @param since when the lock was granted, by `performance.now()` */
  constructor(private since: number) {}

  /** Whether the lock must go to another process now, if one waits. */
  get spent(): boolean {
    return this.grants >= MAX_GRANTS || performance.now() - this.since >= MAX_TIME;
  }

  /** Returns undefined while the lock may be handed over; otherwise resolves after the event loop has run. */
  untilYielded(): Promise<void> | undefined {
    return slice.current.untilYielded();
  }

  count(): void {
    this.grants++;
  }

  /** Starts again, because no other process waits. */
  restart(): void {
    this.grants = 0;
    this.since = performance.now();
  }
}
