import { collect, type Findings, groupBy, ms } from './collect.js';
import { countsUntil, type Excuse, excusesOf, expiryOf, interruptionsOf } from './excuses.js';
import type { Fault, History, Lease, Round } from './histories.js';
import {
  DETECTION_TIME,
  MIN_GRANTS,
  PERMITS,
  recoveryLimit,
  sharingOf,
  type Timing,
} from './keys.js';

export interface Check extends Findings {
  readonly name: string;
}

type LeasesByKey = ReadonlyMap<string, readonly Lease[]>;

/** Checks a history for everything that must never happen. Returns the findings of each check. */
export function check(history: History, setting: Timing): Check[] {
  const excuses = excusesOf(history.faults, setting);
  const keys = groupBy(history.leases, ({ key }) => key);
  const checks: [string, Findings][] = [
    ['no two leases overlap', overlaps(keys, excuses)],
    ['permits are never exceeded', permits(keys, excuses)],
    ['no work starts after the next grant', lateWork(history, keys, excuses)],
    ['no stale write is accepted', staleWrites(history)],
    ['no write of a later lease is refused', wrongRefusals(history, excuses)],
    ['tokens rise', tokens(keys, excuses)],
    ['grants are in the order of arrival', order(keys)],
    ['every worker is granted leases', shares(history, setting)],
    ['no short interruption ends a lease', shortInterruptions(history, setting)],
    ['every worker recovers in time', recoveries(history, setting)],
    ['no false deadlock is reported', deadlocks(history)],
    ['no ephemeral znode is left', left(history)],
    ['no unexpected error', errors(history)],
  ];
  return checks.map(([name, { made, violations }]) => ({ name, made, violations }));
}

/** Returns the leases of one key in the order of their tokens, without those that were lost when granted. */
function inOrder(leases: readonly Lease[]): Lease[] {
  return leases
    .filter(({ held }) => held)
    .sort((a, b) => (a.token < b.token ? -1 : a.token > b.token ? 1 : a.granted - b.granted));
}

const excludes = (a: Lease, b: Lease) => a.mode !== 'read' || b.mode !== 'read';

function overlaps(keys: LeasesByKey, excuses: readonly Excuse[]): Findings {
  return collect(keys, (key, leases, { made, violation }) => {
    if (sharingOf(key) === 'permits') return;
    let open: Lease[] = [];
    for (const later of inOrder(leases)) {
      made();
      for (const earlier of open.filter((lease) => excludes(lease, later))) {
        const beside = countsUntil(earlier, later.granted, excuses) - later.granted;
        if (beside > 0) {
          violation(`${earlier.id} and ${later.id} both held ${key} for ${ms(beside)}`);
        }
      }
      open = [...open.filter(({ ended }) => ended > later.granted), later];
    }
  });
}

function permits(keys: LeasesByKey, excuses: readonly Excuse[]): Findings {
  return collect(keys, (key, leases, { made, violation }) => {
    if (sharingOf(key) !== 'permits') return;
    let open: Lease[] = [];
    for (const lease of leases.filter(({ held }) => held).sort((a, b) => a.granted - b.granted)) {
      made();
      open = [...open.filter(({ ended }) => ended > lease.granted), lease];
      const taken = open
        .filter((other) => countsUntil(other, lease.granted, excuses) > lease.granted)
        .reduce((sum, { count }) => sum + count, 0);
      if (taken > PERMITS) violation(`${taken} permits of ${key} were taken with ${lease.id}`);
    }
  });
}

/**
 * Finds work that began, or could have begun because `held` was true, after the next lease was granted.
 * A pause is no excuse here; only a session that the server ended without the worker's knowledge is.
 */
function lateWork(
  { woke, leases }: History,
  keys: LeasesByKey,
  excuses: readonly Excuse[],
): Findings {
  const expiries = excuses.filter(({ kind }) => kind === 'expire');
  const asked = new Map<string, number[]>();
  for (const { id, held, at } of woke) if (held) asked.set(id, [...(asked.get(id) ?? []), at]);
  const next = nextOf(keys);
  return collect([['', leases]] as const, (_, all, { made, violation }) => {
    for (const lease of all) {
      const follower = next.get(lease);
      for (const at of [...lease.writes, ...(asked.get(lease.id) ?? [])]) {
        made();
        if (!follower || at <= follower.granted) continue;
        const unaware = expiries.some(
          ({ worker, from, until }) =>
            worker === lease.worker && from <= follower.granted && at <= until,
        );
        if (!unaware) {
          const late = ms(at - follower.granted);
          violation(`${lease.id} worked on ${lease.key} ${late} after the grant of ${follower.id}`);
        }
      }
    }
  });
}

/** Returns for each lease the next one that it excludes, except for permits, which have no tokens to order them. */
function nextOf(keys: LeasesByKey): Map<Lease, Lease | undefined> {
  const next = new Map<Lease, Lease | undefined>();
  for (const [key, leases] of keys) {
    if (sharingOf(key) === 'permits') continue;
    let follower: Lease | undefined;
    let exclusive: Lease | undefined;
    for (const lease of inOrder(leases).toReversed()) {
      next.set(lease, lease.mode === 'read' ? exclusive : follower);
      follower = lease;
      if (lease.mode !== 'read') exclusive = lease;
    }
  }
  return next;
}

function staleWrites({ stored }: History): Findings {
  return collect(
    groupBy(stored, ({ key }) => key),
    (key, writes, { made, violation }) => {
      let highest = -1n;
      for (const { id, token, accepted } of writes) {
        made();
        if (accepted && token < highest) {
          violation(`a write of ${id} to ${key} under ${token} was accepted after ${highest}`);
        }
        if (token > highest) highest = token;
      }
    },
  );
}

/** The store may refuse a write only if the lease of the highest token was granted later. */
function wrongRefusals({ stored, leases }: History, excuses: readonly Excuse[]): Findings {
  const byId = new Map(leases.map((lease) => [lease.id, lease]));
  return collect(
    groupBy(stored, ({ key }) => key),
    (key, writes, { made, violation }) => {
      let highest = writes[0]!;
      for (const write of writes) {
        if (write.token > highest.token) highest = write;
        if (write.accepted) continue;
        made();
        const [refused, other] = [byId.get(write.id)!, byId.get(highest.id)!];
        if (other.granted < refused.granted && !isExcused(refused, other, excuses)) {
          violation(
            `a write of ${write.id} to ${key} was refused because of the earlier ${highest.id}`,
          );
        }
      }
    },
  );
}

/**
 * Whether a lease with a lower token may be recorded after another one: its holder was paused between the grant and the
 * record, or its session was closed by another client.
 */
function isExcused(lower: Lease, higher: Lease, excuses: readonly Excuse[]): boolean {
  return countsUntil(lower, higher.granted, excuses) <= higher.granted;
}

function tokens(keys: LeasesByKey, excuses: readonly Excuse[]): Findings {
  return collect(keys, (key, leases, { made, violation }) => {
    if (sharingOf(key) === 'permits') return;
    const sorted = inOrder(leases).filter(({ mode }) => mode !== 'read');
    for (const [index, later] of sorted.entries()) {
      const earlier = sorted[index - 1];
      if (!earlier) continue;
      made();
      if (earlier.token === later.token) {
        violation(`${earlier.id} and ${later.id} have the same token for ${key}`);
      } else if (earlier.granted > later.granted) {
        if (!isExcused(earlier, later, excuses)) {
          violation(`the token of ${earlier.id} for ${key} fell below ${later.id}'s`);
        }
      }
    }
  });
}

type Placed = Lease & { readonly place: NonNullable<Lease['place']> };

/** Compares the sequence numbers of the leases' znodes, as long as the znodes have the same parent. */
function order(keys: LeasesByKey): Findings {
  return collect(keys, (key, leases, { made, violation }) => {
    const placed = leases.filter(
      (lease): lease is Placed => lease.place !== undefined && lease.held,
    );
    for (const [, epoch] of groupBy(placed, ({ place }) => place.directory)) {
      let last = -1;
      let lastAlone = -1;
      const known = new Set<number>();
      for (const { id, mode, place } of inOrder(epoch) as Placed[]) {
        // Handed over within a process, by a znode that had its turn before.
        if (place.sequences.every((sequence) => known.has(sequence))) continue;
        for (const sequence of place.sequences) known.add(sequence);
        made();
        if (Math.min(...place.sequences) <= (mode === 'read' ? lastAlone : last)) {
          violation(`${id} was granted ${key} after a lease that was requested later`);
        }
        last = Math.max(last, ...place.sequences);
        if (mode !== 'read') lastAlone = last;
      }
    }
  });
}

function shares({ quiets, rounds, leases, faults }: History, setting: Timing): Findings {
  const workers = Object.keys(rounds[0]?.healed ?? {});
  const granted = grantTimes(leases);
  const kills = faults.filter(({ kind }) => kind === 'kill');
  return collect(quiets.entries(), (_, { from, until, disturbed }, { made, violation }) => {
    if (disturbed) return;
    for (const worker of workers) {
      // What a killed process held stays locked until its session expires, also for its replacement.
      const replaces = (kill: Fault) =>
        kill.worker === worker && kill.from <= from && from < expiryOf(kill, faults, setting);
      if (kills.some(replaces)) continue;
      made();
      const times = granted.get(worker) ?? [];
      const count = times.filter((at) => at >= from && at <= until).length;
      if (count < MIN_GRANTS) violation(`${worker} had ${count} grants in ${ms(until - from)}`);
    }
  });
}

function shortInterruptions({ faults, leases }: History, setting: Timing): Findings {
  const workers = [...new Set(leases.map(({ worker }) => worker))];
  const byWorker = new Map(workers.map((name) => [name, interruptionsOf(faults, name, setting)]));
  const half = setting.sessionTimeout / 2;
  return collect([['', leases]] as const, (_, all, { made, violation }) => {
    for (const { id, worker, how, why, granted, ended } of all) {
      const near = byWorker
        .get(worker)!
        .filter(({ from, until }) => from < ended && until + setting.sessionTimeout > granted);
      if (near.length > 0) made();
      if (how !== 'lost') continue;
      const explained = near.some(
        ({ from, until, ends }) =>
          (ends || until - from >= half) && ended <= until + recoveryLimit(setting),
      );
      if (!explained) violation(`${id} ended without an interruption that explains it: ${why}`);
    }
  });
}

function recoveries({ rounds, leases }: History, setting: Timing): Findings {
  const granted = grantTimes(leases);
  return collect(rounds.entries(), (_, { healed, waited }, { made, violation }) => {
    // The library is not to blame for the time in which its processes waited for a processor.
    const limit = recoveryLimit(setting) + waited;
    for (const [worker, took] of Object.entries(recoveryTimes(healed, granted))) {
      made();
      if (took > limit) violation(`${worker} recovered after ${ms(took)}, more than ${ms(limit)}`);
    }
  });
}

/** Returns the times of each worker's grants, in order. */
export function grantTimes(leases: readonly Lease[]): Map<string, number[]> {
  const held = leases.filter((lease) => lease.held).sort((a, b) => a.granted - b.granted);
  const times = new Map<string, number[]>();
  for (const [worker, own] of groupBy(held, (lease) => lease.worker)) {
    times.set(
      worker,
      own.map(({ granted }) => granted),
    );
  }
  return times;
}

/**
 * Returns for each worker the milliseconds from the end of its faults to its next grant; Infinity if there
 * was none.
 */
export function recoveryTimes(
  healed: Round['healed'],
  granted: ReadonlyMap<string, readonly number[]>,
): Record<string, number> {
  const times: Record<string, number> = {};
  for (const [worker, since] of Object.entries(healed)) {
    if (since === null) continue;
    const next = granted.get(worker)?.find((at) => at >= since);
    times[worker] = next === undefined ? Infinity : next - since;
  }
  return times;
}

/**
 * All workers acquire their locks in the same order, so no deadlock is possible. Counts the waits that were
 * long enough for the detector to check them.
 */
function deadlocks({ nested, deadlocks }: History): Findings {
  return {
    made: nested.filter(({ from, at }) => at - from >= DETECTION_TIME).length,
    violations: deadlocks.map(({ worker, message }) => `${worker} reported a ${message}`),
  };
}

function left({ orphans }: History): Findings {
  return {
    made: 1,
    violations: orphans
      ? orphans.map((path) => `${path} is left`)
      : ['the run ended before the znodes were listed'],
  };
}

function errors({ broken, leases }: History): Findings {
  return { made: leases.length, violations: broken.map(({ worker, why }) => `${worker}: ${why}`) };
}
