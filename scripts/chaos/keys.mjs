/** Znodes of the run. */
export const ROOT = '/chaos';
export const PERMITS = 3;

/**
 * What is locked, by name: `sharing` says who excludes whom there.
 * - alone: nobody shares it, and each grant has a higher token than all before it;
 * - readers: readers share it among themselves;
 * - permits: up to PERMITS at a time.
 */
export function sharingOf(key) {
  if (key === 'pages' || key === 'ledger') return 'readers';
  return key === 'seats' ? 'permits' : 'alone';
}

/** Milliseconds within which every worker works again once it can. The server expires sessions in ticks. */
export function recoveryLimit({ sessionTimeout, tickTime }) {
  return (sessionTimeout * 4) / 3 + 2 * tickTime;
}

/**
 * Milliseconds: a nested wait of a process that runs has been looked into for a deadlock by then, since that
 * begins 400 after the round that saw it first, and rounds are 200 apart.
 */
export const LOOKED_INTO = 800;

/** Grants that every worker gets in the quiet between two rounds of faults, at least. */
export const LEAST_GRANTS = 3;
/** Milliseconds of that quiet, at least. */
export const LEAST_QUIET = 1_000;
