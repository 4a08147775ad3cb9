import { setTimeout as delay } from 'node:timers/promises';

/** Milliseconds inside: long enough for another one to come in, if it can. */
const STAY = 5;

type Side = 'ours' | 'Curator';

/**
 * Stands inside a lock and counts who is there. Both sides come to it, in this one process, after they
 * were granted the lock, and give it back only when it has let them go: those that it sees together
 * did hold the lock together.
 */
export class Referee {
  readonly violations: string[] = [];
  readonly grants = { ours: 0, Curator: 0 };
  /** How often the lock went from one side to the other. */
  handovers = 0;
  /** Curator has been in: its process may be slow to begin, and ours would be through by then. */
  readonly begun: Promise<void>;
  private readonly inside = { ours: 0, Curator: 0 };
  private last: Side | undefined;
  private begin!: () => void;

  /** @param room how much may be inside at a time */
  constructor(private readonly room = 1) {
    this.begun = new Promise((resolve) => (this.begin = resolve));
  }

  /** @param size how much of the room it takes: all of it for an exclusive lock */
  async visit(side: Side, size = this.room, work = () => delay(STAY)): Promise<void> {
    this.inside[side] += size;
    if (this.inside.ours + this.inside.Curator > this.room) {
      this.violations.push(`ours ${this.inside.ours}, Curator's ${this.inside.Curator} inside`);
    }
    this.grants[side]++;
    if (side === 'Curator') this.begin();
    if (this.last !== undefined && this.last !== side) this.handovers++;
    this.last = side;
    await work();
    this.inside[side] -= size;
  }
}
