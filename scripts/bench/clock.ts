/** The maximum difference in milliseconds between the readings of the two clocks; a reading takes about 0.0001. */
const PRECISION = 0.01;

/** The difference between the shared clock and the wall clock, for {@link environment}. */
const FROM_WALL_CLOCK = 'BENCH_CLOCK';

const OFFSET = offset();

/** The environment of a child process. In Bun, `process.hrtime` begins with the process, and is no shared clock. */
export const environment = { [FROM_WALL_CLOCK]: String(OFFSET - performance.timeOrigin) };

/**
 * Returns milliseconds on CLOCK_MONOTONIC, which all processes of a Linux machine share. Cheap enough to
 * be read at every grant.
 */
export function now(): number {
  return OFFSET + performance.now();
}

/** Repeats the measurement if the process lost its processor between the two readings. */
function offset(): number {
  const { [FROM_WALL_CLOCK]: fromWallClock } = process.env;
  if ('bun' in process.versions) return Number(fromWallClock) + performance.timeOrigin;
  for (;;) {
    const before = performance.now();
    const shared = Number(process.hrtime.bigint()) / 1e6;
    if (performance.now() - before < PRECISION) return shared - before;
  }
}
