/** Milliseconds for which one process may pass a lock on within itself while others wait for it. */
export const BOUND = 10;
/**
 * Milliseconds that the way of a lock from one process to another takes at most: two requests, and
 * what processes wait for each other on a machine that has fewer processors than they are.
 */
export const HAND_OFF = 250;
/** Milliseconds between two visits of the prober. */
export const PROBE_EVERY = 100;
/** How many times a measurement is made again in which the prober waited longer: others may have kept the machine busy. */
export const MOST_REPEATS = 2;
/** How much of what goes wrong in one measurement is told. */
export const MOST_FAILURES = 5;
