import { setImmediate } from 'node:timers/promises';

/** The most grants, and the most milliseconds, for which a lock stays in one process while other processes wait. */
const MAX_GRANTS = 512;
const MAX_TIME = 10;

/** Milliseconds for which a lock is handed over before it yields to the event loop, for timers and replies. */
const MAX_SLICE = 0.5;

/** Limits how long the callers of one process hand a lock over to each other. */
export class HandoverBudget {
  private grants = 0;
  /** When the handovers must yield to the event loop. */
  private sliceEnds: number | undefined;
  private yielding: Promise<void> | undefined;

  /** @param since when the lock was granted, by `performance.now()` */
  constructor(private since: number) {}

  /** Whether the lock must go to another process now, if one waits. */
  get spent(): boolean {
    return this.grants >= MAX_GRANTS || performance.now() - this.since >= MAX_TIME;
  }

  /** Returns undefined while the lock may be handed over; otherwise resolves after the event loop has run. */
  untilYielded(): Promise<void> | undefined {
    const now = performance.now();
    if (this.sliceEnds === undefined) {
      this.sliceEnds = now + MAX_SLICE;
      this.yielding = setImmediate().then(() => (this.sliceEnds = undefined));
    }
    return now < this.sliceEnds ? undefined : this.yielding;
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
