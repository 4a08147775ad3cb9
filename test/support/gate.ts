/** A gate at which calls wait until the test opens it. */
export class Gate {
  /** Resolves when a call waits. */
  readonly reached: Promise<void>;
  readonly opened: Promise<void>;
  private markReached!: () => void;
  open!: () => void;

  constructor() {
    this.reached = new Promise((resolve) => (this.markReached = resolve));
    this.opened = new Promise((resolve) => (this.open = resolve));
  }

  pass(): Promise<void> {
    this.markReached();
    return this.opened;
  }
}
