import { reportPage } from '../report-page.mjs';
import type { Acquire, Report } from './types.js';

/** Returns an HTML page with a timeline of the run. */
export function tracePage(report: Report): Promise<string> {
  const { seed, digest, duration, events, grants, faults, violations } = report;
  const acquires = report.acquires.toSorted((a, b) => a.asked - b.asked);
  const lanes = [
    ...new Set([
      ...report.processes,
      ...acquires.map(({ process }) => process),
      ...faults.map(({ target }) => target),
    ]),
  ];
  const number = (value: number) => value.toLocaleString('en', { maximumFractionDigits: 0 });
  const ends = [...acquires.map(({ ended }) => ended), ...faults.map(({ until }) => until)];
  const facts: [string, string][] = [
    ['digest', digest],
    ['virtual milliseconds', number(duration)],
    ['events', number(events)],
    ['grants checked', number(grants)],
    ['faults', number(faults.length)],
    ['violations', number(violations.length)],
  ];
  return reportPage(`Simulation, seed ${seed}`, facts, {
    from: 0,
    until: Math.max(duration, ...ends, 1),
    lanes,
    leases: acquires.map(({ process, asked, token, ...lease }) => ({
      ...lease,
      lane: lanes.indexOf(process),
      requested: asked,
      token: token?.toString(),
    })),
    bands: faults.map(({ index, kind, target, from, until }) => ({
      lane: lanes.indexOf(target),
      kind: 'fault',
      label: `${index}: ${kind}`,
      from,
      until,
    })),
    handOvers: handOvers(acquires),
    writes: [],
    violations,
  });
}

/**
 * Returns the hand-overs between processes, as pairs of indexes: the lease that ended and the lease that was granted. A
 * lease is handed over by the lease that ended last while its acquire waited.
 */
export function handOvers(acquires: readonly Acquire[]): [ended: number, granted: number][] {
  const pairs: [number, number][] = [];
  for (const key of new Set(acquires.map((acquire) => acquire.key))) {
    const granted = [...acquires.keys()]
      .filter((index) => acquires[index]!.key === key && acquires[index]!.granted !== undefined)
      .sort((a, b) => acquires[a]!.granted! - acquires[b]!.granted!);
    const ended = granted.toSorted((a, b) => acquires[a]!.ended - acquires[b]!.ended);
    let next = 0;
    for (const index of granted) {
      const acquire = acquires[index]!;
      while (next < ended.length && acquires[ended[next]!]!.ended <= acquire.granted!) next++;
      const before = ended[next - 1];
      if (before === undefined || acquires[before]!.ended < acquire.asked) continue;
      if (acquires[before]!.process !== acquire.process) pairs.push([before, index]);
    }
  }
  return pairs;
}
