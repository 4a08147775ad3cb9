/** How many grants one after another, and for how many milliseconds, while others wait. */
const MOST_GRANTS = 256;
const MOST_TIME = 10;

/** Whether a process has had a lock for long enough, if others wait for it. */
export class Bound {
  private grants = 0;
  private since = performance.now();

  get reached(): boolean {
    return this.grants >= MOST_GRANTS || performance.now() - this.since >= MOST_TIME;
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
