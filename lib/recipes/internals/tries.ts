import { Roster } from './fifo-set.js';
import type { Waiter } from './wait.js';

type Try = Pick<Waiter<unknown>, 'patient' | 'blocked' | 'blockedBriefly'>;

/** One look at the queue. */
export interface Look {
  /** The acquires with `wait: 0` that it decides about: those that began before it. */
  readonly tries: readonly Try[];
  /** Resolves when another one begins: only a new look can decide about that one. */
  readonly arrival: Promise<void>;
}

/** The acquires with `wait: 0` that wait for one znode of this process. */
export class Tries extends Roster<Try> {
  private onArrival: (() => void) | undefined;

  /** Ignores other waiters. */
  override add(waiter: Try): void {
    if (waiter.patient) return;
    super.add(waiter);
    this.onArrival?.();
  }

  /** Call it before the queue is listed. */
  look(): Look {
    return { tries: [...this], arrival: new Promise((resolve) => (this.onArrival = resolve)) };
  }
}
