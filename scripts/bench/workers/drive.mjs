import { setTimeout as delay } from 'node:timers/promises';
import { now } from '../clock.js';
import { Samples } from './samples.mjs';

/**
 * Lets callers acquire and release locks in a loop until `until`. Cycles that end between `from` and
 * `until`, on the clock of clock.ts, count. `cycle(key, turn)` resolves after the release with the time of
 * the grant. With a `pace`, each caller pauses for about that many milliseconds before each request.
 */
export async function drive(cycle, { callers, keys = 1, pace = 0, from, until }) {
  const cycles = new Samples();
  const waits = new Samples();
  let longestWait = 0;
  const call = async (caller) => {
    let done = now();
    for (let turn = 0; done < until; turn++) {
      if (pace > 0) await delay(pace * (0.5 + Math.random()));
      // Reading the clock is a part of the cost of a grant in memory, so it is read as rarely as possible.
      const asked = pace > 0 ? now() : done;
      const granted = await cycle((caller + turn * callers) % keys, turn);
      done = now();
      // The longest wait counts whenever it begins and ends.
      longestWait = Math.max(longestWait, granted - asked);
      if (done < from || done >= until) continue;
      cycles.add(done - asked);
      waits.add(granted - asked);
    }
  };
  await Promise.all(Array.from({ length: callers }, (_, caller) => call(caller)));
  return {
    shares: [cycles.length],
    p50: cycles.percentile(0.5),
    p99: cycles.percentile(0.99),
    waitP50: waits.percentile(0.5),
    longestWait,
  };
}

/** Returns the numbers among the parameters of a request. */
export function loadOf(parameters) {
  const names = ['callers', 'keys', 'pace', 'from', 'until'];
  return Object.fromEntries(
    names.filter((name) => name in parameters).map((name) => [name, Number(parameters[name])]),
  );
}
