import { grantTimes, recoveryTimes } from './checker.js';
import { DETECTION_TIME, recoveryLimit } from './keys.js';

/** Returns the figures of a run. */
export function summarize(history, checks, setting) {
  const { leases, stored, faults, rounds, woke, nested } = history;
  const granted = grantTimes(leases);
  const recoveries = rounds.flatMap(({ healed }) => Object.values(recoveryTimes(healed, granted)));
  const count = (list) => list.length;
  return {
    seed: setting.seed,
    server: setting.server,
    transport: history.transports.join(),
    workers: setting.workers,
    seconds: Math.round((history.ended - history.began) / 1000),
    sessionTimeout: setting.sessionTimeout,
    tickTime: setting.tickTime,
    faults: tally(faults, ({ kind }) => kind),
    leases: tally(leases, ({ mode }) => mode),
    ends: tally(leases, ({ how }) => how),
    writes: {
      accepted: count(stored.filter(({ accepted }) => accepted)),
      refused: count(stored.filter(({ accepted }) => !accepted)),
    },
    pauses: {
      asked: count(woke),
      held: count(woke.filter(({ held }) => held)),
      lost: count(woke.filter(({ held }) => !held)),
      abortedOnlyOnceAsked: count(woke.filter(({ held, aborted }) => !held && !aborted)),
      notAborted: count(woke.filter(({ held, abortedThen }) => !held && !abortedThen)),
    },
    nested: {
      waits: count(nested),
      lookedInto: count(nested.filter(({ from, at }) => at - from >= DETECTION_TIME)),
    },
    recoveries: {
      count: recoveries.length,
      slowest: Math.round(Math.max(0, ...recoveries)),
      limit: Math.round(recoveryLimit(setting)),
    },
    checks: checks.map(({ name, made, violations }) => ({
      name,
      made,
      violations: violations.length,
    })),
  };
}

function tally(list, kindOf) {
  const counts = {};
  for (const item of list) counts[kindOf(item)] = (counts[kindOf(item)] ?? 0) + 1;
  return counts;
}

export function toText({
  faults,
  leases,
  ends,
  writes,
  pauses,
  nested,
  recoveries,
  checks,
  ...run
}) {
  const sum = (counts) => Object.values(counts).reduce((a, b) => a + b, 0);
  const list = (counts) =>
    Object.entries(counts)
      .sort(([, a], [, b]) => b - a)
      .map(([name, count]) => `${count} ${name}`)
      .join(', ');
  const row = (...cells) =>
    cells.map((cell, index) => (index ? String(cell).padStart(12) : cell.padEnd(52))).join('');
  return [
    `${run.seconds} s with ${run.workers} workers over ${run.transport} on ${run.server}, seed ${run.seed}; ` +
      `session timeout ${run.sessionTimeout} ms, tick time ${run.tickTime} ms.`,
    '',
    row('Fault', 'Injected'),
    ...Object.entries(faults).map(([kind, count]) => row(kind, count)),
    row('all', sum(faults)),
    '',
    row('Check', 'Made', 'Violations'),
    ...checks.map(({ name, made, violations }) => row(name, made, violations)),
    '',
    `Leases granted: ${sum(leases)} (${list(leases)}); how they ended: ${list(ends)}.`,
    `Writes: ${writes.accepted} accepted, ${writes.refused} refused by their tokens.`,
    `Leases checked in the first code after a pause: ${pauses.asked}, of which ${pauses.lost} were lost.`,
    `Waits for a lock inside another one: ${nested.waits}, of which ${nested.lookedInto} were checked for a deadlock.`,
    `Slowest recovery: ${recoveries.slowest} ms of ${recoveries.count}, limit ${recoveries.limit} ms.`,
  ].join('\n');
}
