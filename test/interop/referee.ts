// oxlint-disable-next-line no-restricted-imports -- no event follows from a second holder that does not enter
import { setTimeout as delay } from 'node:timers/promises';

/** Milliseconds inside: long enough for another holder to enter, if it can. */
const HOLD = 5;

type Side = 'ours' | 'Curator';

/**
 * Counts the holders inside a lock. Both sides call it in this one process after their grant, and
 * release only after it has returned, so callers that it counts together held the lock together.
 */
export class Referee {
  readonly violations: string[] = [];
  readonly grants = { ours: 0, Curator: 0 };
  /** The number of times that the lock went from one side to the other. */
  handovers = 0;
  /**
   * Resolves when Curator has been inside: its process may start slowly, and this library would be
   * done by then.
   */
  readonly begun: Promise<void>;
  private readonly inside = { ours: 0, Curator: 0 };
  private last: Side | undefined;
  private begin!: () => void;

  /** @param room the capacity inside */
  constructor(private readonly room = 1) {
    this.begun = new Promise((resolve) => (this.begin = resolve));
  }

  /** @param size the part of the capacity that the holder takes; all of it for an exclusive lock */
  async visit(side: Side, size = this.room): Promise<void> {
    this.inside[side] += size;
    if (this.inside.ours + this.inside.Curator > this.room) {
      this.violations.push(`ours ${this.inside.ours}, Curator's ${this.inside.Curator} inside`);
    }
    this.grants[side]++;
    if (side === 'Curator') this.begin();
    if (this.last !== undefined && this.last !== side) this.handovers++;
    this.last = side;
    await delay(HOLD);
    this.inside[side] -= size;
  }
}
