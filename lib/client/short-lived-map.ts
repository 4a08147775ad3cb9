/** A map is not copied before this number of entries was removed. */
const FEW = 16;

/**
 * A map whose entries come and go all the time. A `Map` would leak for a while: V8 lets each table that a Map has outgrown
 * refer to the next one, so the first table that reaches the old generation keeps alive what later tables contained, until
 * a full garbage collection. Half of what an uncontended lock allocates survived that way.
 */
export class ShortLivedMap<K, V> {
  private entries = new Map<K, V>();
  /** The number of entries that were removed from {@link entries}. */
  private removed = 0;

  get size(): number {
    return this.entries.size;
  }

  get(key: K): V | undefined {
    return this.entries.get(key);
  }

  has(key: K): boolean {
    return this.entries.has(key);
  }

  set(key: K, value: V): void {
    this.entries.set(key, value);
  }

  delete(key: K): boolean {
    const { entries } = this;
    if (!entries.delete(key)) return false;
    // A copy has a table of its own, to which no other table refers.
    if (++this.removed >= FEW && this.removed >= entries.size) {
      this.entries = new Map(entries);
      this.removed = 0;
    }
    return true;
  }

  clear(): void {
    this.entries = new Map();
    this.removed = 0;
  }

  /** The keys at this moment. */
  keys(): K[] {
    return [...this.entries.keys()];
  }

  /** The values at this moment. */
  values(): V[] {
    return [...this.entries.values()];
  }
}
