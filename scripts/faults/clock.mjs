/**
 * Milliseconds on CLOCK_MONOTONIC, which all processes of a Linux machine share: what two of them
 * measured can be compared. `performance.now()` counts from each process's own start.
 */
export function now() {
  return Number(process.hrtime.bigint()) / 1e6;
}
