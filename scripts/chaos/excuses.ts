import type { Fault, Lease } from './histories.js';
import { recoveryLimit, type Timing } from './keys.js';

/** Milliseconds after a pause within which a process may still act on what it knew before. */
const GRACE = 250;
/** The part of the session timeout after which the client's session deadline ends its leases. */
const SESSION_DEADLINE = 0.75;

const PAUSES = ['stop', 'block'];

/** A time in which a worker could not know that its session was over. */
export interface Excuse {
  readonly kind: string;
  readonly worker: string | undefined;
  readonly from: number;
  readonly until: number;
}

/**
 * Returns the times in which workers could not know that their session was over: while the process was
 * paused, and from the moment at which the server ended the session until the client's session deadline.
 */
export function excusesOf(
  faults: readonly Fault[],
  { sessionTimeout }: { readonly sessionTimeout: number },
): Excuse[] {
  return faults.flatMap(({ kind, worker, from, until }) => {
    if (PAUSES.includes(kind)) return [{ worker, kind, from, until: until + GRACE }];
    if (kind !== 'expire') return [];
    return [{ worker, kind, from, until: until + sessionTimeout * SESSION_DEADLINE + GRACE }];
  });
}

/**
 * Returns the time until which a lease excludes a lease that was granted at `at`: its end, or the start of
 * the time in which its holder could not know that it was lost.
 */
export function countsUntil(lease: Lease, at: number, excuses: readonly Excuse[]): number {
  if (lease.ended <= at) return lease.ended;
  const excuse = excuses.find(
    ({ worker, from, until }) =>
      worker === lease.worker && from <= at && from < lease.ended && lease.ended <= until,
  );
  return excuse ? excuse.from : lease.ended;
}

/**
 * Returns the time until which the session of a killed process may live. Servers that are started again give each
 * session its full timeout again.
 */
export function expiryOf(kill: Fault, faults: readonly Fault[], setting: Timing): number {
  const limit = recoveryLimit(setting);
  return faults
    .filter(({ worker, healed }) => worker === undefined && healed > kill.from)
    .sort((a, b) => a.from - b.from)
    .reduce(
      (expiry, { from, healed }) => (from < expiry ? Math.max(expiry, healed + limit) : expiry),
      kill.from + limit,
    );
}

interface Interruption {
  readonly from: number;
  until: number;
  /** Whether the session ends, however short the interruption is. */
  ends: boolean;
}

/**
 * Returns the times in which a worker could not reach its servers or was paused. Interruptions that are
 * less than half a session timeout apart count as one.
 */
export function interruptionsOf(
  faults: readonly Fault[],
  worker: string,
  { sessionTimeout }: { readonly sessionTimeout: number },
): Interruption[] {
  const own = faults
    .filter((fault) => fault.worker === undefined || fault.worker === worker)
    .map((fault) => ({
      from: fault.from,
      until: interruptedUntil(fault),
      ends: endsSession(fault),
    }))
    .sort((a, b) => a.from - b.from);
  const merged: Interruption[] = [];
  for (const next of own) {
    const last = merged.at(-1);
    if (last && next.from - last.until < sessionTimeout / 2) {
      last.until = Math.max(last.until, next.until);
      last.ends ||= next.ends;
    } else merged.push({ ...next });
  }
  return merged;
}

/** Some faults interrupt nothing: the client notices at once, and reconnects to the same or another server. */
function interruptedUntil({ kind, from, healed, until }: Fault): number {
  if (['drop-reply', 'delay', 'kill-follower'].includes(kind)) return from;
  return kind.startsWith('pause-') ? until : healed;
}

function endsSession({ kind }: Fault): boolean {
  return kind === 'expire' || kind === 'kill';
}
