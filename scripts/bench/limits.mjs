export const OURS = 'ours (wire)';
export const OURS_NATIVE = 'ours (native)';
export const ALL_OURS = [OURS, OURS_NATIVE, 'ours (embedded)'];
/** The requests of a lock without the lock, over the wire transport. */
export const RAW_WIRE = 'raw (wire)';
/** The systems of this library that are compared with the peers, by their transport. */
export const TRANSPORTS = { wire: OURS, native: OURS_NATIVE };

/** Milliseconds for which one process may hand a lock over within itself while other processes wait for it. */
export const BOUND = 10;
/**
 * The maximum milliseconds of a handover from one process to another: two requests, and the time that the
 * processes wait for each other on a machine with fewer processors than processes.
 */
export const HAND_OFF = 250;
/** Milliseconds between two requests of the prober. */
export const PROBE_EVERY = 100;
/** How often a measurement is repeated whose prober waited too long, in case the machine was busy. */
export const MOST_REPEATS = 2;
/** The maximum number of failures of one measurement that are reported. */
export const MOST_FAILURES = 5;
