import { setTimeout as delay } from 'node:timers/promises';
import { now } from '../clock.js';
import { Samples } from './samples.mjs';

/**
 * @typedef {object} Load
 * @property {number} callers
 * @property {number} keys
 * @property {number} pace
 * @property {number} zipf
 * @property {number} from
 * @property {number} until
 */

/**
 * Lets callers acquire and release locks in a loop until `until`. Cycles that end between `from` and
 * `until`, on the clock of clock.ts, count. `cycle(key, turn)` resolves after the release with the time of
 * the grant. With a `pace`, each caller pauses for about that many milliseconds before each request. With `zipf`, a
 * caller draws each key by Zipf's law with that exponent; otherwise the callers take the keys in turn.
 *
 * @param {(key: number, turn: number) => Promise<number>} cycle
 * @param {Load} load
 */
export async function drive(cycle, { callers, keys, pace, zipf, from, until }) {
  const draw = zipf > 0 ? zipfKeys(keys, zipf) : undefined;
  const processorTime = measureProcessor(from, until);
  const cycles = new Samples();
  const waits = new Samples();
  let longestWait = 0;
  const call = async (caller) => {
    let done = now();
    for (let turn = 0; done < until; turn++) {
      if (pace > 0) await delay(pace * (0.5 + Math.random()));
      // Reading the clock is a part of the cost of a grant in memory, so it is read as rarely as possible.
      const asked = pace > 0 ? now() : done;
      const key = draw ? draw() : (caller + turn * callers) % keys;
      const granted = await cycle(key, turn);
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
    processor: await processorTime,
    p50: cycles.percentile(0.5),
    p99: cycles.percentile(0.99),
    p999: cycles.percentile(0.999),
    waitP50: waits.percentile(0.5),
    longestWait,
  };
}

/** Resolves with the microseconds of processor time that this process uses between two times. */
async function measureProcessor(from, until) {
  await delay(Math.max(0, from - now()));
  const before = process.cpuUsage();
  await delay(until - now());
  const { user, system } = process.cpuUsage(before);
  return user + system;
}

/** Returns a function that draws a key: key n with a probability in proportion to (n + 1) to the power of -exponent. */
function zipfKeys(keys, exponent) {
  let sum = 0;
  const sums = Float64Array.from({ length: keys }, (_, key) => (sum += (key + 1) ** -exponent));
  return () => {
    const drawn = Math.random() * sum;
    let [low, high] = [0, keys - 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (sums[middle] > drawn) high = middle;
      else low = middle + 1;
    }
    return low;
  };
}

/**
 * Returns the numbers among the parameters of a request.
 *
 * @param {Record<string, string>} parameters
 */
export function loadOf({ callers = '1', keys = '1', pace = '0', zipf = '0', from, until }) {
  return {
    callers: Number(callers),
    keys: Number(keys),
    pace: Number(pace),
    zipf: Number(zipf),
    from: Number(from),
    until: Number(until),
  };
}
