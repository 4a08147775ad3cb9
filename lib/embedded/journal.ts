/** How to undo the changes of an unfinished multi, and the watches to fire when it succeeds. */
export class Journal {
  readonly #undo: (() => void)[] = [];
  readonly #fire: (() => void)[] = [];

  changed(undo: () => void): void {
    this.#undo.push(undo);
  }

  defer(fire: () => void): void {
    this.#fire.push(fire);
  }

  rollBack(): void {
    for (const undo of this.#undo.toReversed()) undo();
  }

  commit(): void {
    for (const fire of this.#fire) fire();
  }
}
