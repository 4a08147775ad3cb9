/**
 * Returns milliseconds on CLOCK_MONOTONIC, which all processes of a Linux machine share, so that times of
 * two processes can be compared. `performance.now()` counts from the start of each process.
 */
export function now(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}
