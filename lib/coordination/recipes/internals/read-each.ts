/** The number of znodes that are read at the same time. */
export const MAX_READS = 128;

/** Reads one thing for each item, at most {@link MAX_READS} at the same time. Resolves to the results in the order of the items. */
export async function readEach<T, R>(
  items: readonly T[],
  read: (item: T) => Promise<R>,
): Promise<R[]> {
  const results: R[] = [];
  // All readers share one iterator.
  const entries = items.entries();
  const readNext = async () => {
    for (const [index, item] of entries) results[index] = await read(item);
  };
  await Promise.all(Array.from({ length: Math.min(MAX_READS, items.length) }, readNext));
  return results;
}
