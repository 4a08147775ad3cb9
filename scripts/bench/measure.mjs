import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { now } from './clock.js';
import { checkExclusion } from './exclusion.js';
import { messageOf } from '../message-of.mjs';
import { percentile } from '../percentile.js';
import { CALLERS } from './cases.mjs';
import { ALL_OURS, BOUND, HAND_OFF, MOST_FAILURES, MOST_REPEATS, PROBE_EVERY } from './limits.mjs';
import { Systems } from './systems.mjs';

/** Milliseconds within which all processes have received the request. */
const HEAD_START = 50;
/** The part of a measurement's length that precedes it as a warm-up, unless the case sets its own. */
const WARM_UP = 0.3;
/** The warm-up of a new process, with many callers on many keys. */
const FIRST_WARM_UP = 2;
const MANY = 64;

/** Runs cases, one after the other; in each, the systems take turns. */
export class Bench {
  failures = [];
  #runs = 0;
  /** The number of measurements without a result. */
  #broken = 0;
  #warm = new Set();
  #prepared = new Set();
  #extra = [];

  constructor(systems, { seconds, repetitions, quick, directory }) {
    this.systems = systems;
    this.seconds = seconds;
    this.repetitions = repetitions;
    this.quick = quick;
    this.directory = directory;
  }

  /** Resolves with the results of each system's repetitions. */
  async measure(spec) {
    const present = spec.systems.filter((system) => !Systems.missing(system));
    const runs = new Map(present.map((system) => [system, []]));
    const counts = spec.counts ?? [undefined];
    const broken = new Set();
    for (let repetition = 0; repetition < this.repetitions; repetition++) {
      for (const count of counts) {
        // The first one may have an advantage or a disadvantage, so each system is first in turn.
        const turn = repetition % present.length;
        for (const system of [...present.slice(turn), ...present.slice(0, turn)]) {
          // A system that breaks or hangs once would do so again.
          const run = broken.has(system)
            ? undefined
            : await this.#tryMeasure(withCount(spec, count), system);
          if (!run) broken.add(system);
          runs.get(system).push(run && (count === undefined ? run : { count, ...run }));
        }
      }
    }
    // The other cases need only one process of each system.
    await Promise.all(this.#extra.map((peer) => this.systems.release(peer)));
    this.#extra = [];
    return runs;
  }

  /** Resolves with undefined, and adds a failure, if the system breaks or hangs. The other systems go on. */
  async #tryMeasure(spec, system) {
    try {
      return await this.#repeatIfLate(spec, system);
    } catch (error) {
      this.systems.signal.throwIfAborted();
      this.#broken++;
      this.#fail(spec, system, [`no result: ${messageOf(error).trim().replaceAll(/\s+/g, ' ')}`]);
      await this.systems.releaseAll(system);
      return undefined;
    }
  }

  /** Repeats a measurement whose prober waited too long. It is a failure if it always does. */
  async #repeatIfLate(spec, system) {
    const limit = (spec.processes ?? 1) * BOUND + HAND_OFF;
    for (let repeats = 0; ; repeats++) {
      const run = await this.#once(spec, system);
      if (!(run.opsPerSecond > 0)) throw new Error('it has done nothing');
      const waited = run.prober?.longestWait;
      // A quick measurement has no warm-up, so its waits mean nothing.
      if (this.quick || !ALL_OURS.includes(system) || !(waited > limit)) return run;
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
    if (spec.kind === 'cache') return this.#cache(spec, system);
    return this.#load(spec, system);
  }

  async #load(spec, system) {
    const { lock = 'mutex', mode = 'default', permits = 0, processes = 1 } = spec;
    const load = { keys: 1, ...spec.load };
    // For Curator, one Java process with several sessions stands for several processes.
    const split = system === 'curator' ? { processes: 1, sessions: processes } : { processes };
    const callers = load.callers * (split.sessions ?? 1);
    const peers = await Promise.all(
      Array.from({ length: split.processes }, (_, index) => this.#warmPeer(system, index)),
    );
    const prober = spec.probed && (await this.systems.prober(system));
    const checked = spec.probed && ALL_OURS.includes(system);
    /** @type {Record<string, string>} */
    const logs = {};
    const logOf = (name) => {
      if (!checked) return {};
      logs[name] = join(this.directory, `${this.#runs}-${name}`);
      return { log: logs[name] };
    };
    const path = await this.#path(spec.name, system, load.keys, spec.unprepared ? 0 : load.keys);
    const times = this.#times(spec);
    const { keys, pace = 0, zipf = 0 } = load;
    const common = { lock, path, keys, zipf, permits, until: times.until };
    const asked = peers.map((peer, index) =>
      peer.ask('run', {
        ...common,
        ...logOf(`process-${index + 1}`),
        mode,
        callers,
        pace,
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

  async #cache({ name, znodes, ...spec }, system) {
    const path = await this.#path(name, system, znodes);
    const peer = await this.#warmPeer(system, 0);
    // The first copy warms the process up.
    await peer.ask('open-cache', { path });
    const { initialize } = await peer.ask('open-cache', { path });
    const result = await peer.ask('set-cached', { znodes, ...this.#times(spec) });
    return { ...combine([result], this.seconds), initialize };
  }

  async #decorator(system) {
    const peer = await this.systems.single(system, 'decorator.mjs');
    const result = await peer.ask('run', this.#times({}));
    await this.systems.release(peer);
    return { opsPerSecond: 1000 / result.p50, ...result };
  }

  /** Uses a new process, because a used one would reuse its memory. */
  async #memory({ waiters }, system, path) {
    const peer = await this.systems.single(system);
    const { seconds, bytes } = await peer.ask('memory', { path, waiters });
    await this.systems.release(peer);
    return {
      opsPerSecond: waiters / seconds,
      p50: null,
      p99: null,
      p999: null,
      bytesPerWaiter: bytes / waiters,
    };
  }

  /** Returns a path for each case, system and number of keys, which the repetitions share. */
  async #path(name, system, keys, prepared = keys) {
    // A system that hung may have left nodes, so the next measurement has a new path.
    const path = `/bench/${name}/${encodeURIComponent(system)}-${keys}-${this.#broken}`;
    if (!this.#prepared.has(path)) {
      this.#prepared.add(path);
      await this.systems.prepare(system, path, prepared);
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
    const reported = failures.slice(0, MOST_FAILURES);
    this.failures.push(...reported.map((failure) => `${name}, ${system}: ${failure}`));
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

/** Combines the results of the processes of one run: the median of their medians, the worst of the rest. */
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
    p999: total === 0 ? null : worst('p999'),
    longestWait: worst('longestWait'),
    ...(results.every(({ processor }) => processor !== undefined) && {
      cpu: results.reduce((sum, { processor }) => sum + processor, 0) / total,
    }),
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
