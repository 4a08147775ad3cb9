/** An acquire with `wait: 0`: a Waiter. */
interface Try {
  /** @param why a sentence about the holder */
  blocked(why?: string): void;
  blockedBriefly(): void;
  unblocked(): void;
}

/**
 * The tries (acquires with `wait: 0`) that wait for one znode of this process. A listing of the queue decides only about
 * tries that started before it was requested.
 */
export class Tries {
  /** The number of the latest try. Read it before the queue is listed. */
  latest = 0;
  private numbered: { readonly waiter: Try; readonly number: number }[] = [];
  private onTry: (() => void) | undefined;

  get size(): number {
    return this.numbered.length;
  }

  add(waiter: Try): void {
    this.numbered.push({ waiter, number: ++this.latest });
    this.onTry?.();
  }

  delete(waiter: Try): void {
    this.numbered = this.numbered.filter((each) => each.waiter !== waiter);
  }

  /** Returns the tries up to a number. */
  upTo(latest: number): Try[] {
    return this.numbered.filter(({ number }) => number <= latest).map(({ waiter }) => waiter);
  }

  /** Resolves when a try with a higher number begins. */
  after(latest: number): Promise<void> {
    return new Promise((resolve) => {
      if (this.latest > latest) resolve();
      else this.onTry = resolve;
    });
  }
}
