/** The shortest delay of a timer in virtual milliseconds, also if the rounded due time is earlier. */
const MIN_TIMER_DELAY = 0.001;

/** The time at which every virtual wall clock starts: 2026-01-01T00:00:00Z. */
export const WALL_CLOCK_START = Date.UTC(2026, 0, 1);

/** The source of virtual time. */
interface TimeSource {
  /** The virtual time for the running code. */
  readonly time: number;
  /** Returns the virtual time. The reading itself takes a little time. */
  readClock(): number;
}

/** The clocks of one process. */
export class ProcessClocks {
  #wallClockStep = 0;
  /** Virtual milliseconds for which the machine has been asleep. */
  #timeAsleep = 0;
  #asleepSince: number | undefined;

  constructor(
    private readonly source: TimeSource,
    /** The rate of all clocks of the process. A clock of rate 1.01 gains one per cent. */
    readonly rate: number,
  ) {}

  /** Stops the monotonic clock until {@link wakeUp}. */
  fallAsleep(): void {
    this.#asleepSince = this.source.time;
  }

  /** Continues after {@link fallAsleep}, if the machine is asleep. */
  wakeUp(): void {
    if (this.#asleepSince !== undefined) this.#timeAsleep += this.source.time - this.#asleepSince;
    this.#asleepSince = undefined;
  }

  /** Moves the wall clock forward by `ms` milliseconds, or back if `ms` is negative. */
  stepWallClock(ms: number): void {
    this.#wallClockStep += ms;
  }

  /** The milliseconds for which the machine has been asleep, by the clock of the process. */
  get timeAsleep(): number {
    return this.#timeAsleep * this.rate;
  }

  /** Returns the milliseconds since a virtual time, by the clock of the process, sleep included. */
  since(time: number): number {
    return (this.source.time - time) * this.rate;
  }

  /** Returns the value of `performance.now()`. */
  monotonicTime(): number {
    return (this.source.readClock() - this.#timeAsleep) * this.rate;
  }

  /** Returns the value of `os.uptime()`, in milliseconds. */
  bootTime(): number {
    return this.source.readClock() * this.rate;
  }

  /** Returns the value of `Date.now()`. */
  wallTime(): number {
    return WALL_CLOCK_START + Math.floor(this.bootTime() + this.#wallClockStep);
  }

  /**
   * Returns the virtual time at which a timer fires that starts now.
   *
   * @param delay milliseconds by the clock of the process
   */
  dueTime(delay: number): number {
    const { time } = this.source;
    // Node rounds the start of a timer down to a whole millisecond, so a timer may fire almost 1 ms early.
    const due = Math.floor(time * this.rate) + delay;
    return Math.max(due / this.rate, time + MIN_TIMER_DELAY);
  }
}
