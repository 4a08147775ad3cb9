import { collect, groupBy, ms } from './collect.mjs';
import { countsUntil, excusesOf, interruptionsOf } from './excuses.mjs';
import { LEAST_GRANTS, LOOKED_INTO, PERMITS, recoveryLimit, sharingOf } from './keys.mjs';

/**
 * Looks for all that must never happen in a history that histories.mjs assembled. Returns for each check
 * what it says, how often it was made, and its violations.
 */
export function check(history, setting) {
  const excuses = excusesOf(history.faults, setting);
  const keys = groupBy(history.leases, ({ key }) => key);
  const checks = [
    ['no two leases overlap', overlaps(keys, excuses)],
    ['permits are never exceeded', permits(keys, excuses)],
    ['no work begins on a lease that another one followed', lateWork(history, keys, excuses)],
    ['no stale write is accepted', staleWrites(history)],
    ['no write of a later lease is refused', wrongRefusals(history)],
    ['tokens rise', tokens(keys, excuses)],
    ['grants are in the order of arrival', order(keys)],
    ['every worker is granted its part', shares(history, setting)],
    ['no short interruption ends a lease', shortInterruptions(history, setting)],
    ['every worker recovers in time', recoveries(history, setting)],
    ['no deadlock is told where there is none', deadlocks(history)],
    ['no znode is left', left(history)],
    ['no error but those of the library', errors(history)],
  ];
  return checks.map(([name, { made, violations }]) => ({ name, made, violations }));
}

/** Those of one key that are told apart by their tokens, the earlier first; what was lost at its grant is none. */
function inOrder(leases) {
  return leases
    .filter(({ held }) => held)
    .sort((a, b) => (a.token < b.token ? -1 : a.token > b.token ? 1 : a.granted - b.granted));
}

const excludes = (a, b) => a.mode !== 'read' || b.mode !== 'read';

function overlaps(keys, excuses) {
  return collect(keys, (key, leases, { made, violation }) => {
    if (sharingOf(key) === 'permits') return;
    let open = [];
    for (const later of inOrder(leases)) {
      made();
      for (const earlier of open.filter((lease) => excludes(lease, later))) {
        const beside = countsUntil(earlier, later.granted, excuses) - later.granted;
        if (beside > 0) violation(`${earlier.id} held ${key} for ${ms(beside)} beside ${later.id}`);
      }
      open = [...open.filter(({ ended }) => ended > later.granted), later];
    }
  });
}

function permits(keys, excuses) {
  return collect(keys, (key, leases, { made, violation }) => {
    if (sharingOf(key) !== 'permits') return;
    let open = [];
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
 * Work that was begun, or could have been, since it was asked whether the lease is held: a pause excuses
 * nothing here, only a session that was ended behind its worker's back does.
 */
function lateWork({ woke, leases }, keys, excuses) {
  const expiries = excuses.filter(({ kind }) => kind === 'expire');
  const asked = new Map();
  for (const { id, held, at } of woke) if (held) asked.set(id, [...(asked.get(id) ?? []), at]);
  const next = nextOf(keys);
  return collect([['', leases]], (_, all, { made, violation }) => {
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

/** The first lease that a lease excludes after it, where they are told apart by their tokens. */
function nextOf(keys) {
  const next = new Map();
  for (const [key, leases] of keys) {
    if (sharingOf(key) === 'permits') continue;
    let follower;
    let exclusive;
    for (const lease of inOrder(leases).toReversed()) {
      next.set(lease, lease.mode === 'read' ? exclusive : follower);
      follower = lease;
      if (lease.mode !== 'read') exclusive = lease;
    }
  }
  return next;
}

function staleWrites({ stored }) {
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

/** A refusal is right only for who held before: then a later grant has the higher token. */
function wrongRefusals({ stored, leases }) {
  const byId = new Map(leases.map((lease) => [lease.id, lease]));
  return collect(
    groupBy(stored, ({ key }) => key),
    (key, writes, { made, violation }) => {
      let highest;
      for (const write of writes) {
        if (!highest || write.token > highest.token) highest = write;
        if (write.accepted) continue;
        made();
        if (byId.get(highest.id).granted < byId.get(write.id).granted) {
          violation(`a write of ${write.id} to ${key} was refused for the earlier ${highest.id}`);
        }
      }
    },
  );
}

function tokens(keys, excuses) {
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
        // It was granted first, and its holder stood still before it could note that.
        const excused = countsUntil(earlier, later.granted, excuses) <= later.granted;
        if (!excused) violation(`the token of ${earlier.id} for ${key} fell below ${later.id}'s`);
      }
    }
  });
}

/** By the numbers that the ensemble gave to their znodes, as long as these are in the same directory. */
function order(keys) {
  return collect(keys, (key, leases, { made, violation }) => {
    const placed = leases.filter(({ place, held }) => place && held);
    for (const [, epoch] of groupBy(placed, ({ place }) => place.directory)) {
      let [last, lastAlone] = [-1, -1];
      const known = new Set();
      for (const { id, mode, place } of inOrder(epoch)) {
        // By a znode that had its turn before, it was handed over within a process.
        if (place.sequences.every((sequence) => known.has(sequence))) continue;
        for (const sequence of place.sequences) known.add(sequence);
        made();
        if (Math.min(...place.sequences) <= (mode === 'read' ? lastAlone : last)) {
          violation(`${id} was granted ${key} after somebody who came later`);
        }
        last = Math.max(last, ...place.sequences);
        if (mode !== 'read') lastAlone = last;
      }
    }
  });
}

function shares({ quiets, rounds, leases, faults }, setting) {
  const workers = Object.keys(rounds[0]?.healed ?? {});
  const granted = grantTimes(leases);
  const kills = faults.filter(({ kind }) => kind === 'kill');
  return collect(quiets.entries(), (_, { from, until, disturbed }, { made, violation }) => {
    if (disturbed) return;
    for (const worker of workers) {
      // What a dead process held is taken until its session is over, also for the one in its place.
      const standsIn = (kill) =>
        kill.worker === worker && kill.from <= from && from < kill.from + recoveryLimit(setting);
      if (kills.some(standsIn)) continue;
      made();
      const times = granted.get(worker) ?? [];
      const count = times.filter((at) => at >= from && at <= until).length;
      if (count < LEAST_GRANTS) violation(`${worker} had ${count} grants in ${ms(until - from)}`);
    }
  });
}

function shortInterruptions({ faults, leases }, setting) {
  const workers = [...new Set(leases.map(({ worker }) => worker))];
  const byWorker = new Map(workers.map((name) => [name, interruptionsOf(faults, name, setting)]));
  const half = setting.sessionTimeout / 2;
  return collect([['', leases]], (_, all, { made, violation }) => {
    for (const { id, worker, how, why, granted, ended } of all) {
      const near = byWorker
        .get(worker)
        .filter(({ from, until }) => from < ended && until + setting.sessionTimeout > granted);
      if (near.length > 0) made();
      if (how !== 'told') continue;
      const explained = near.some(
        ({ from, until, ends }) =>
          (ends || until - from >= half) && ended <= until + recoveryLimit(setting),
      );
      if (!explained) violation(`${id} was ended by no interruption worth it: ${why}`);
    }
  });
}

function recoveries({ rounds, leases }, setting) {
  const granted = grantTimes(leases);
  return collect(rounds.entries(), (_, { healed, waited }, { made, violation }) => {
    // What it took while its processes were ready and no processor was free is not the library's.
    const limit = recoveryLimit(setting) + waited;
    for (const [worker, took] of Object.entries(recoveryTimes(healed, granted))) {
      made();
      if (took > limit) violation(`${worker} worked again after ${ms(took)}, not ${ms(limit)}`);
    }
  });
}

/** When each worker was granted what it held, in order. */
export function grantTimes(leases) {
  const held = leases.filter((lease) => lease.held).sort((a, b) => a.granted - b.granted);
  const times = new Map();
  for (const [worker, own] of groupBy(held, (lease) => lease.worker)) {
    times.set(
      worker,
      own.map(({ granted }) => granted),
    );
  }
  return times;
}

/** Milliseconds from when all was well for a worker to its next grant. Infinity where it had none. */
export function recoveryTimes(healed, granted) {
  const times = Object.entries(healed).map(([worker, since]) => {
    const next = granted.get(worker)?.find((at) => at >= since);
    return [worker, next === undefined ? Infinity : next - since];
  });
  return Object.fromEntries(times.filter(([worker]) => healed[worker] !== null));
}

/** All take their locks in the same order. What no detector looked into would show nothing. */
function deadlocks({ nested, deadlocks }) {
  return {
    made: nested.filter(({ from, at }) => at - from >= LOOKED_INTO).length,
    violations: deadlocks.map(({ worker, message }) => `${worker} was told of a ${message}`),
  };
}

function left({ orphans }) {
  return {
    made: 1,
    violations: orphans ? orphans.map((path) => `${path} is left`) : ['nobody looked for znodes'],
  };
}

function errors({ broken, leases }) {
  return { made: leases.length, violations: broken.map(({ worker, why }) => `${worker}: ${why}`) };
}
