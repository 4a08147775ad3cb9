import { ProcessState } from '../../client/process-state.js';

/** How many grants one after another, and for how many milliseconds, while others wait. */
const MOST_GRANTS = 512;
const MOST_TIME = 10;

/** Milliseconds: for so long a turn of the event loop hands locks on, all of them together. */
const LONGEST_TURN = 0.5;

/** The present turn of the event loop, and how many locks are handed on in it, and were in the last one. */
const eventLoop = new ProcessState(() => ({ turn: 0, active: 0, lastActive: 1, counting: false }));

function turnNow(): number {
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
  return loop.turn;
}

/** Whether a process has had a lock for long enough, if others wait for it. */
export class Bound {
  private grants = 0;
  private since = performance.now();
  private turn = -1;
  private turnBegan = 0;

  /**
   * What comes before the next grant: nothing; the next turn of the event loop, which has to hear of time,
   * of newcomers and of all else, and gives each lock its part of a turn; or others, if any wait.
   */
  get before(): 'nothing' | 'next turn' | 'others' {
    const now = performance.now();
    if (this.grants >= MOST_GRANTS || now - this.since >= MOST_TIME) return 'others';
    const turn = turnNow();
    const loop = eventLoop.current;
    if (this.turn === turn) {
      return now - this.turnBegan < LONGEST_TURN / loop.lastActive ? 'nothing' : 'next turn';
    }
    this.turn = turn;
    this.turnBegan = now;
    loop.active++;
    return 'nothing';
  }

  count(): void {
    this.grants++;
  }

  /** Nobody waits elsewhere. */
  startAgain(): void {
    this.grants = 0;
    this.since = performance.now();
  }
}
