import { percentile } from '../percentile.js';
import { RAW_WIRE } from './limits.mjs';

/** What the systems of this library are compared with. */
export const PEERS = ['curator', 'redlock', 'kazoo', 'raw', RAW_WIRE];

/** Returns the rows of a case: medians over the repetitions, and the longest of the waits. */
export function summarize(runs) {
  return Object.fromEntries(
    [...runs]
      .map(([system, list]) => [system, list.filter(Boolean)])
      .filter(([, list]) => list.length > 0)
      .map(([system, list]) => [system, rowOf(list)]),
  );
}

/** Returns a system ÷ each peer in operations per second: the median over the repetitions. */
export function ratiosOf(runs, system) {
  const ours = runs.get(system);
  const present = PEERS.filter((peer) => ours?.some(Boolean) && runs.get(peer)?.some(Boolean));
  return Object.fromEntries(
    present.map((peer) => {
      const theirs = runs.get(peer);
      const pairs = ours
        .map((run, index) => [run, theirs[index]])
        .filter(([run, peer]) => run && peer);
      return [peer, rounded(median(pairs.map(([a, b]) => a.opsPerSecond / b.opsPerSecond)))];
    }),
  );
}

export function rounded(value) {
  return typeof value === 'number' && Number.isFinite(value) ? Number(value.toPrecision(4)) : null;
}

function rowOf(runs) {
  const counts = [...new Set(runs.map(({ count }) => count))];
  if (counts.length === 1) return numbersOf(runs);
  const series = counts.map((count) => ({
    count,
    ...numbersOf(runs.filter((run) => run.count === count)),
  }));
  // With as many as there are.
  return { ...numbersOf(runs.filter((run) => run.count === counts.at(-1))), series };
}

function numbersOf(runs) {
  const column = (name) => runs.map((run) => run[name]).filter((value) => value !== null);
  const middle = (name) => rounded(median(column(name)));
  const [first] = runs;
  const extra = ['bytesPerWaiter', 'withLock', 'overhead', 'initialize', 'cpu'].filter(
    (name) => name in first,
  );
  const speeds = column('opsPerSecond');
  return {
    opsPerSecond: middle('opsPerSecond'),
    p50: middle('p50'),
    p99: middle('p99'),
    p999: middle('p999'),
    spread: [Math.min(...speeds), Math.max(...speeds)].map(rounded),
    ...('longestWait' in first && { longestWait: rounded(Math.max(...column('longestWait'))) }),
    ...Object.fromEntries(extra.map((name) => [name, middle(name)])),
    // Of the repetition that was least fair.
    ...(first.shares && { shares: mostUneven(runs).map(rounded) }),
    ...(first.prober && { prober: probesOf(runs.map(({ prober }) => prober)) }),
  };
}

function probesOf(probers) {
  const medians = probers.map(({ p50 }) => p50).filter((value) => value !== null);
  return {
    probes: probers.reduce((sum, { probes }) => sum + probes, 0),
    p50: rounded(median(medians)),
    longestWait: rounded(Math.max(...probers.map(({ longestWait }) => longestWait))),
  };
}

function mostUneven(runs) {
  const factor = ({ shares }) => Math.max(...shares) / Math.min(...shares);
  return runs.toSorted((a, b) => factor(b) - factor(a))[0].shares;
}

function median(values) {
  return percentile(values, 0.5);
}
