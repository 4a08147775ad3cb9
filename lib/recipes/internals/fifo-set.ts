/** A shorter one is not worth tidying up. */
const SHORT = 32;

/**
 * A set in the order of arrival, for what comes and goes all the time and is seldom looked for. Not a
 * Set: V8 lets each table that a Set has outgrown refer to the next one, so that the first table to reach
 * the old generation keeps alive whatever was in the later ones until a full garbage collection.
 */
export class Roster<T extends object> {
  private items: (T | undefined)[] = [];
  private head = 0;
  private count = 0;

  get size(): number {
    return this.count;
  }

  get first(): T | undefined {
    return this.items[this.head];
  }

  /** It must not be there yet. */
  add(item: T): void {
    this.items.push(item);
    this.count++;
  }

  /** Quick for those who came first. */
  delete(item: T): boolean {
    const items = this.items;
    const at = items.indexOf(item, this.head);
    if (at < 0) return false;
    items[at] = undefined;
    this.count--;
    while (this.head < items.length && items[this.head] === undefined) this.head++;
    if (items.length > SHORT && items.length > 2 * this.count) this.tidyUp();
    return true;
  }

  clear(): void {
    this.items = [];
    this.head = 0;
    this.count = 0;
  }

  *[Symbol.iterator](): Generator<T, void> {
    for (const item of this.items.slice(this.head)) if (item) yield item;
  }

  private tidyUp(): void {
    this.items = this.items.filter((item) => item !== undefined);
    this.head = 0;
  }
}

/** How many are kept. */
const MOST = 256;

const spare: AbortController[] = [];

/** To make an AbortController, and to collect it, costs more than to hand a lock over. */
export function takeController(): AbortController {
  return spare.pop() ?? new AbortController();
}

/** Nobody listens to its signal any more, and none of AbortSignal.any() was made of it. */
export function giveBackController(controller: AbortController): void {
  if (!controller.signal.aborted && spare.length < MOST) spare.push(controller);
}
