/**
 * Returns a percentile by the nearest rank; undefined where there are no values.
 *
 * @param part from 0 to 1: 0.5 is the median, 1 the maximum
 */
export function percentile(values: readonly number[], part: number): number | undefined {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(part * sorted.length) - 1)];
}
