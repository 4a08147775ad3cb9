import { setTimeout as delay } from 'node:timers/promises';
import { now } from '../clock.mjs';
import { Samples } from './samples.mjs';

/**
 * Callers that take and release locks one time after the other until `until`. What ends between `from`
 * and `until`, on clock.mjs's clock, counts. `cycle(key, turn)` resolves after the release with the
 * time of the grant. With a `pace` each caller rests for about so many milliseconds before it asks.
 */
export async function drive(cycle, { callers, keys = 1, pace = 0, from, until }) {
  const cycles = new Samples();
  const waits = new Samples();
  let longestWait = 0;
  const call = async (caller) => {
    let done = now();
    for (let turn = 0; done < until; turn++) {
      if (pace > 0) await delay(pace * (0.5 + Math.random()));
      // A reading of the clock is a part of what a grant in memory costs: as few as it takes.
      const asked = pace > 0 ? now() : done;
      const granted = await cycle((caller + turn * callers) % keys, turn);
      done = now();
      // Waits may begin and end whenever they like: the longest one is what somebody went through.
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

/** The numbers among the parameters of a request for load. */
export function loadOf(parameters) {
  const names = ['callers', 'keys', 'pace', 'from', 'until'];
  return Object.fromEntries(
    names.filter((name) => name in parameters).map((name) => [name, Number(parameters[name])]),
  );
}
