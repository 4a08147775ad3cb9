import { detached } from './detached.js';
import type { LostClock } from './lost-clock.js';

export interface VigilDuties {
  /** Evaluates the clock; false once the session is over. */
  isAlive(): boolean;
  /** Sends a light read, and calls back when it is through. Returns false where nothing was sent. */
  read(done: () => void): boolean;
}

/** The two timers of a session: one keeps its clock fresh while nothing else is sent, one looks when it runs out. */
export class Vigil {
  readonly #clock: LostClock;
  readonly #duties: VigilDuties;
  #readTimer: NodeJS.Timeout | undefined;
  #lostTimer: NodeJS.Timeout | undefined;
  #reading = false;

  constructor(clock: LostClock, duties: VigilDuties) {
    this.#clock = clock;
    this.#duties = duties;
  }

  /** With each new connection. */
  start(sessionTimeout: number): void {
    this.stop();
    this.#reading = false;
    detached(() => {
      this.#readTimer = setInterval(() => this.#read(sessionTimeout), sessionTimeout / 6).unref();
      this.#look();
    });
  }

  stop(): void {
    clearInterval(this.#readTimer);
    clearTimeout(this.#lostTimer);
  }

  #read(sessionTimeout: number): void {
    // A machine that woke up finds out here: timers sleep with it.
    if (!this.#duties.isAlive() || this.#reading || this.#clock.age < sessionTimeout / 8) return;
    this.#reading = this.#duties.read(() => (this.#reading = false));
  }

  #look(): void {
    const look = () => {
      if (this.#duties.isAlive()) this.#look();
    };
    this.#lostTimer = setTimeout(look, Math.max(1, Math.ceil(this.#clock.left))).unref();
  }
}
