import { ProcessState } from '../../client/process-state.js';

/** The most grants, and the most milliseconds, for which a lock stays in one process while other processes wait. */
const MOST_GRANTS = 512;
const MOST_TIME = 10;

/** Milliseconds for which all locks together are handed over in one turn of the event loop. */
const LONGEST_TURN = 0.5;

/** The number of the present turn of the event loop, and how many locks are handed over in it and in the last one. */
const eventLoop = new ProcessState(() => ({ turn: 0, active: 0, lastActive: 1, counting: false }));

/**
 * Limits how long the callers of one process hand a lock over to each other. The event loop must get its turn for
 * timers and replies, and other processes must get theirs.
 */
export class HandoverBudget {
  private grants = 0;
  private turn = -1;
  private turnBegan = 0;

  /** @param since when the lock was granted, by `performance.now()` */
  constructor(private since: number) {}

  /** Returns what must come before the next grant: nothing, a turn of the event loop, or a turn of other processes. */
  next(): 'grant' | 'next turn' | 'spent' {
    const now = performance.now();
    if (this.grants >= MOST_GRANTS || now - this.since >= MOST_TIME) return 'spent';
    const loop = eventLoop.current;
    if (!loop.counting) {
      loop.counting = true;
      setImmediate(() => {
        loop.turn++;
        loop.lastActive = Math.max(1, loop.active);
        loop.active = 0;
        loop.counting = false;
      }).unref();
    }
    if (this.turn === loop.turn) {
      return now - this.turnBegan < LONGEST_TURN / loop.lastActive ? 'grant' : 'next turn';
    }
    this.turn = loop.turn;
    this.turnBegan = now;
    loop.active++;
    return 'grant';
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
