/** The parent of all znodes of a run. */
export const ROOT = '/chaos';
export const PERMITS = 3;

/** The parts of a run's setting that its limits depend on, in milliseconds. */
export interface Timing {
  readonly sessionTimeout: number;
  readonly tickTime: number;
}

/**
 * Returns how the leases of a key exclude each other:
 * - alone: one lease at a time, and each grant has a higher token than all earlier ones;
 * - readers: leases of mode `read` share the key;
 * - permits: up to PERMITS permits at a time.
 */
export function sharingOf(key: string): 'alone' | 'readers' | 'permits' {
  if (key === 'pages' || key === 'ledger') return 'readers';
  return key === 'seats' ? 'permits' : 'alone';
}

/** Milliseconds within which a worker must be granted a lease again after its faults have ended. */
export function recoveryLimit({ sessionTimeout, tickTime }: Timing): number {
  // The server expires sessions at whole ticks.
  return (sessionTimeout * 4) / 3 + 2 * tickTime;
}

/**
 * Milliseconds after which the deadlock detector has checked a nested wait of a running process: it starts
 * 400 ms after the round that saw the wait first, and rounds are 200 ms apart.
 */
export const DETECTION_TIME = 800;

/** The minimum number of grants of each worker in the quiet time between two rounds of faults. */
export const MIN_GRANTS = 3;
/** The minimum length of that quiet time in milliseconds. */
export const MIN_QUIET = 1_000;
