import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { now } from './clock.mjs';
import { checkExclusion } from './exclusion.mjs';
import { percentile } from '../scripts/percentile.mjs';
import { CALLERS } from './cases.mjs';
import { BOUND, HAND_OFF, MOST_FAILURES, MOST_REPEATS, PROBE_EVERY } from './limits.mjs';
import { ALL_OURS, Systems } from './systems.mjs';

/** Milliseconds until all processes have heard that they are to begin. */
const HEAD_START = 50;
/** Of the length of a measurement, before it begins, unless the case says more. */
const WARM_UP = 0.3;
/** Likewise, with many callers on many keys, in a process that has not done anything yet. */
const FIRST_WARM_UP = 2;
const MANY = 64;

/** Runs cases, one after the other, and on each the systems in turns. */
export class Bench {
  failures = [];
  /** What kept a peer from a result. */
  remarks = [];
  #runs = 0;
  #warm = new Set();
  #prepared = new Set();
  #extra = [];

  constructor(systems, { seconds, repetitions, directory }) {
    this.systems = systems;
    this.seconds = seconds;
    this.repetitions = repetitions;
    this.directory = directory;
  }

  /** By the system a list of what each repetition measured. */
  async measure(spec) {
    const present = spec.systems.filter((system) => !Systems.missing(system));
    const runs = new Map(present.map((system) => [system, []]));
    const counts = spec.counts ?? [undefined];
    const hung = new Set();
    for (let repetition = 0; repetition < this.repetitions; repetition++) {
      for (const count of counts) {
        // Whoever is first has it quieter or less warm: everybody is first once.
        const turn = repetition % present.length;
        for (const system of [...present.slice(turn), ...present.slice(0, turn)]) {
          // Whoever hung once would hang again.
          const run = hung.has(system)
            ? undefined
            : await this.#tried(withCount(spec, count), system);
          if (!run) hung.add(system);
          runs.get(system).push(run && (count === undefined ? run : { count, ...run }));
        }
      }
    }
    // Few cases need more than one process of a system.
    await Promise.all(this.#extra.map((peer) => this.systems.release(peer)));
    this.#extra = [];
    return runs;
  }

  /** A peer that hangs or breaks has no result; that is no failure of ours. */
  async #tried(spec, system) {
    try {
      return await this.#inTime(spec, system);
    } catch (error) {
      this.systems.signal.throwIfAborted();
      const remark = `${spec.name}, ${error.message}`;
      if (ALL_OURS.includes(system)) throw new Error(remark, { cause: error });
      this.remarks.push(remark);
      await this.systems.releaseAll(system);
      return undefined;
    }
  }

  /** Once more where the prober had to wait for too long: it is a failure if it always has to. */
  async #inTime(spec, system) {
    const limit = (spec.processes ?? 1) * BOUND + HAND_OFF;
    for (let repeats = 0; ; repeats++) {
      const run = await this.#once(spec, system);
      const waited = run.prober?.longestWait;
      if (!ALL_OURS.includes(system) || !(waited > limit)) return run;
      if (repeats < MOST_REPEATS) continue;
      const failure = `the prober waited for ${Math.round(waited)} ms, more than ${limit} ms`;
      this.#fail(spec, system, [failure]);
      return run;
    }
  }

  async #once(spec, system) {
    const path = `/bench/${spec.name}/${++this.#runs}`;
    if (spec.kind === 'memory') return this.#memory(spec, system, path);
    if (spec.kind === 'decorator') return this.#decorator(system);
    if (spec.kind === 'elect') return this.#elect(spec, system, path);
    return this.#load(spec, system);
  }

  async #load(spec, system) {
    const { lock = 'mutex', mode = 'default', permits = 0, processes = 1 } = spec;
    const load = { keys: 1, ...spec.load };
    // Of Curator one Java process stands for all, with a session for each.
    const split = system === 'curator' ? { processes: 1, sessions: processes } : { processes };
    const callers = load.callers * (split.sessions ?? 1);
    const peers = await Promise.all(
      Array.from({ length: split.processes }, (_, index) => this.#warmPeer(system, index)),
    );
    const prober = spec.probed && (await this.systems.prober(system));
    const checked = spec.probed && ALL_OURS.includes(system);
    const logs = {};
    const logOf = (name) => {
      if (!checked) return {};
      logs[name] = join(this.directory, `${this.#runs}-${name}`);
      return { log: logs[name] };
    };
    const path = await this.#path(spec.name, system, load.keys);
    const times = this.#times(spec);
    const common = { lock, path, keys: load.keys, permits, until: times.until };
    const asked = peers.map((peer, index) =>
      peer.ask('run', {
        ...common,
        ...logOf(`process-${index + 1}`),
        mode,
        callers,
        sessions: split.sessions ?? 1,
        from: times.from,
      }),
    );
    const probing = prober?.ask('run', {
      ...common,
      ...logOf('prober'),
      mode: 'default',
      callers: 1,
      pace: PROBE_EVERY,
      from: 0,
    });
    const [probes, ...results] = await Promise.all([probing, ...asked]);
    const run = combine(results, this.seconds, probes);
    if (ALL_OURS.includes(system)) {
      const violations = results.reduce((sum, result) => sum + result.violations, 0);
      const inside = violations > 0 ? [`${violations} visits while others were inside`] : [];
      this.#fail(spec, system, [...inside, ...(checked ? await checkExclusion(logs) : [])]);
    }
    await Promise.all(Object.values(logs).map((file) => rm(file)));
    return run;
  }

  async #elect({ participants, ...spec }, system, path) {
    const peer = await this.#warmPeer(system, 0);
    const times = this.#times(spec);
    return combine([await peer.ask('elect', { path, participants, ...times })], this.seconds);
  }

  async #decorator(system) {
    const peer = await this.systems.single(system, 'decorator.mjs');
    const result = await peer.ask('run', this.#times({}));
    await this.systems.release(peer);
    return { opsPerSecond: 1000 / result.p50, ...result };
  }

  /** In a process of its own: what it took before would be reused. */
  async #memory({ waiters }, system, path) {
    const peer = await this.systems.single(system);
    const { seconds, bytes } = await peer.ask('memory', { path, waiters });
    await this.systems.release(peer);
    return {
      opsPerSecond: waiters / seconds,
      p50: null,
      p99: null,
      bytesPerWaiter: bytes / waiters,
    };
  }

  /** One for each case, system and number of keys, so that the repetitions find what they need. */
  async #path(name, system, keys) {
    // What hung may have left its nodes.
    const path = `/bench/${name}/${encodeURIComponent(system)}-${keys}-${this.remarks.length}`;
    if (!this.#prepared.has(path)) {
      this.#prepared.add(path);
      await this.systems.prepare(system, path, keys);
    }
    return path;
  }

  #times({ warmUp = WARM_UP * this.seconds }) {
    const from = now() + HEAD_START + warmUp * 1000;
    return { from, until: from + this.seconds * 1000 };
  }

  async #warmPeer(system, index) {
    const peer = await this.systems.peer(system, `process ${index + 1}`);
    if (this.#warm.has(peer)) return peer;
    this.#warm.add(peer);
    if (index > 0) this.#extra.push(peer);
    await peer.ask('run', {
      lock: 'mutex',
      mode: 'default',
      path: await this.#path('warm-up', system, MANY),
      callers: MANY,
      keys: MANY,
      from: 0,
      until: now() + FIRST_WARM_UP * this.seconds * 1000,
    });
    return peer;
  }

  #fail({ name }, system, failures) {
    const told = failures.slice(0, MOST_FAILURES);
    this.failures.push(...told.map((failure) => `${name}, ${system}: ${failure}`));
  }
}

function withCount(spec, count) {
  if (count === undefined) return spec;
  const load =
    spec.counted === 'keys'
      ? { keys: count, callers: Math.min(count, CALLERS) }
      : { keys: 1, callers: count };
  return { ...spec, load };
}

/** What the processes of one run measured, as one: medians of their medians, the worst of the rest. */
function combine(results, seconds, probes) {
  const worst = (name) => Math.max(...results.map((result) => result[name] ?? 0));
  const shares = results.flatMap((result) => result.shares);
  const total = shares.reduce((sum, share) => sum + share, 0);
  return {
    opsPerSecond: total / seconds,
    p50:
      percentile(
        results.map((result) => result.p50).filter((value) => value !== null),
        0.5,
      ) ?? null,
    p99: total === 0 ? null : worst('p99'),
    longestWait: worst('longestWait'),
    ...(shares.length > 1 && { shares: shares.map((share) => share / total) }),
    ...(probes && {
      prober: {
        probes: probes.shares[0],
        p50: probes.waitP50,
        longestWait: probes.longestWait,
      },
    }),
  };
}
