/** Milliseconds after a pause in which a process may learn what happened meanwhile. */
const GRACE = 250;
/** Of the session timeout: after so long without an answer the client's own clock ends its leases. */
const OWN_CLOCK = 0.75;

const PAUSES = ['stop', 'block'];

/**
 * When a worker could not know that its session was over: while its process stood still, and from the
 * moment on that the servers ended the session behind its back until its own clock tells it.
 */
export function excusesOf(faults, { sessionTimeout }) {
  return faults.flatMap(({ kind, worker, from, until }) => {
    if (PAUSES.includes(kind)) return [{ worker, kind, from, until: until + GRACE }];
    if (kind !== 'expire') return [];
    return [{ worker, kind, from, until: until + sessionTimeout * OWN_CLOCK + GRACE }];
  });
}

/** Until when a lease counts against one that was granted at `at`: its end, or where its holder could not know any more. */
export function countsUntil(lease, at, excuses) {
  if (lease.ended <= at) return lease.ended;
  const excuse = excuses.find(
    ({ worker, from, until }) =>
      worker === lease.worker && from <= at && from < lease.ended && lease.ended <= until,
  );
  return excuse ? excuse.from : lease.ended;
}

/**
 * How long each worker was cut off from its servers, or stood still, about the time of each fault:
 * times with less than half a session timeout between them count as one.
 */
export function interruptionsOf(faults, worker, { sessionTimeout }) {
  const own = faults
    .filter((fault) => fault.worker === undefined || fault.worker === worker)
    .map((fault) => ({
      from: fault.from,
      until: interruptedUntil(fault),
      ends: endsSession(fault),
    }))
    .sort((a, b) => a.from - b.from);
  const merged = [];
  for (const next of own) {
    const last = merged.at(-1);
    if (last && next.from - last.until < sessionTimeout / 2) {
      last.until = Math.max(last.until, next.until);
      last.ends ||= next.ends;
    } else merged.push({ ...next });
  }
  return merged;
}

/** Of these the client hears at once, and there are others to go to, or it is back at once. */
function interruptedUntil({ kind, from, healed, until }) {
  if (['drop-reply', 'delay', 'kill-follower'].includes(kind)) return from;
  return kind.startsWith('pause-') ? until : healed;
}

function endsSession({ kind }) {
  return kind === 'expire' || kind === 'kill';
}
