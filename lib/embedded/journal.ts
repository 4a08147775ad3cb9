/** What an unfinished multi has changed, to take it back, and the watches it fires once it stands. */
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
