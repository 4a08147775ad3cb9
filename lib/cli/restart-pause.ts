/** Bounds, milliseconds. */
const MIN_PAUSE = 1000;
const MAX_PAUSE = 30_000;

/**
 * The pause before each restart of a command: 1 s at first, then twice as long each time, up to 30 s. It is 1 s again after
 * a run of more than 30 s.
 */
export class RestartPause {
  #next = MIN_PAUSE;
  /** Milliseconds that the last run took. */
  #ranFor = 0;

  /** Runs the command, and measures how long it runs. */
  async measure<T>(run: () => Promise<T>): Promise<T> {
    const since = performance.now();
    try {
      return await run();
    } finally {
      this.#ranFor = performance.now() - since;
    }
  }

  /** Returns the pause after the last run, milliseconds. */
  next(): number {
    const pause = this.#ranFor > MAX_PAUSE ? MIN_PAUSE : this.#next;
    this.#next = Math.min(2 * pause, MAX_PAUSE);
    return pause;
  }
}
