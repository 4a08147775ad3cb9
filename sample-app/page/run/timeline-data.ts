import type { TimelineBand, TimelineData, TimelineLease, TimelineWrite } from '../timeline/data.js';
import { diedAt } from './model.js';
import type { LeaseModel, Period, RunModel, SaleModel, StoryModel } from './run-model.js';

/** What else the page knows about the present. */
export interface Present {
  /** The time of the server. */
  readonly now: number;
  readonly lanes: readonly string[];
  /** Since when the state of an instance is not confirmed, by number. */
  readonly unconfirmedSince: ReadonlyMap<number, number>;
}

/** Least width of the axis in milliseconds, so that the first events of a sale do not fill it. */
const LEAST = 400;

/** The timeline of a sale, in milliseconds since the sale started. Without a sale: the recent past. */
export function timelineOf(
  run: RunModel,
  sale: SaleModel | undefined,
  present: Present,
): TimelineData {
  const { now, lanes } = present;
  const start = sale?.startedAt ?? now - 2 * LEAST;
  const end = Math.max(sale?.end?.at ?? now, lastEnd(sale));
  const { leases, handOvers, ranks } = sale
    ? leasesOf(run, sale, start, now)
    : { leases: [], handOvers: [], ranks: new Map<string, number>() };
  return {
    from: 0,
    until: Math.max(LEAST, end - start),
    lanes,
    leases,
    bands: bandsOf(run, start, end, present),
    handOvers,
    writes: sale ? writesOf(run, sale, start, ranks) : [],
    violations: [],
  };
}

/** The timeline of the leaders during a story, in milliseconds since the story began. */
export function leadersOf(run: RunModel, story: StoryModel, present: Present): TimelineData {
  const { from: start, until: end = present.now } = story;
  const terms = run.terms.filter(({ from, until = end }) => from <= end && until >= start);
  return {
    from: 0,
    until: Math.max(LEAST, end - start),
    lanes: present.lanes,
    leases: terms.map(({ instance, from, until, outcome }, index): TimelineLease => {
      const next = terms[index + 1]?.from;
      return {
        ...{ lane: instance - 1, key: 'leader', granted: from - start, outcome },
        ended: until === undefined ? undefined : until - start,
        // ZooKeeper ends the session of a leader that it does not hear.
        lockFreedAt: next === undefined ? undefined : next - start,
      };
    }),
    bands: bandsOf(run, start, end, present),
    handOvers: terms.slice(1).map((_, index) => [index, index + 1]),
    writes: [],
    violations: [],
  };
}

function bandsOf(
  run: RunModel,
  start: number,
  end: number,
  { now, lanes, unconfirmedSince }: Present,
): TimelineBand[] {
  const at = (time: number) => Math.min(time, end) - start;
  const isShown = ({ from, until }: Period) => from <= end && (until ?? end) >= start;
  const bands: TimelineBand[] = [];
  for (const [lane] of lanes.entries()) {
    const add = (kind: TimelineBand['kind'], period: Period) => {
      if (!isShown(period)) return;
      const { from, until } = period;
      bands.push({
        lane,
        kind,
        from: Math.max(0, from - start),
        until: until === undefined && end === now ? undefined : at(until ?? end),
      });
    };
    for (const band of run.instances.get(lane + 1)?.bands ?? []) add(band.kind, band);
    const since = unconfirmedSince.get(lane + 1);
    const silences = run.silences.filter(({ until }) => since === undefined || until !== undefined);
    for (const silence of silences) add('unconfirmed', silence);
    if (since !== undefined) add('unconfirmed', { from: since });
  }
  return bands;
}

/** A sale is over when its buyers have their answers; an instance that was paused may write later. */
function lastEnd(sale: SaleModel | undefined): number {
  let last = sale?.end?.at ?? 0;
  for (const { endedAt = 0 } of sale?.leases.values() ?? []) last = Math.max(last, endedAt);
  for (const { endedAt = 0 } of sale?.purchases.values() ?? []) last = Math.max(last, endedAt);
  return last;
}

function leasesOf(run: RunModel, sale: SaleModel, start: number, now: number) {
  const relative = (time: number | undefined) => (time === undefined ? undefined : time - start);
  const all = [...sale.leases.values()].map((lease): LeaseModel & { died?: number } => {
    if (lease.endedAt !== undefined) return lease;
    // A process that dies does not report the end of its leases.
    const since = lease.grantedAt ?? lease.requestedAt ?? 0;
    return { ...lease, died: diedAt(run, { instance: lease.instance, since }) };
  });
  const ranks = ranksOf(all);
  const order = [...all.keys()]
    .filter((index) => all[index]!.grantedAt !== undefined)
    .sort((a, b) => all[a]!.grantedAt! - all[b]!.grantedAt!);
  const handOvers: [number, number][] = [];
  const lockFreedAt = new Map<number, number>();
  for (const [position, index] of order.entries()) {
    const { instance, died, outcome } = all[index]!;
    const next = order[position + 1];
    if (next !== undefined && all[next]!.instance !== instance) handOvers.push([index, next]);
    const movedOn = next === undefined ? undefined : all[next]!.grantedAt!;
    // A holder that was paused or cut off learns too late that the lock has moved on; one that died never.
    const isLost = outcome === 'lost' || (outcome === undefined && isStill(run, instance, movedOn));
    if (isLost && movedOn !== undefined) lockFreedAt.set(index, movedOn - start);
    if (died !== undefined) {
      lockFreedAt.set(index, Math.max(died, movedOn ?? sale.end?.at ?? now) - start);
    }
  }
  const leases = all.map(
    (
      { instance, key, requestedAt, grantedAt, endedAt, outcome, died, token },
      index,
    ): TimelineLease => ({
      lane: instance - 1,
      key,
      requested: relative(requestedAt),
      granted: relative(grantedAt),
      ended: relative(endedAt ?? died),
      outcome: died === undefined ? outcome : 'died',
      lockFreedAt: lockFreedAt.get(index),
      token,
      rank: token === undefined ? undefined : ranks.get(token),
    }),
  );
  return { leases, handOvers, ranks };
}

/** Whether an instance is paused or cut off at a time, so that it has not learned what happened. */
function isStill(run: RunModel, instance: number, time = Infinity): boolean {
  const bands = run.instances.get(instance)?.bands ?? [];
  return bands.some(({ from, until = Infinity }) => from <= time && time < until);
}

/** Rank of each token within the sale. Tokens are decimal numbers that may be larger than a double can hold. */
function ranksOf(leases: readonly LeaseModel[]): Map<string, number> {
  const tokens = new Set(leases.flatMap(({ token }) => (token === undefined ? [] : [token])));
  const sorted = [...tokens].sort((a, b) => a.length - b.length || (a < b ? -1 : 1));
  return new Map(sorted.map((token, index) => [token, index + 1]));
}

/** Without a lock: all purchases. With a lock: the writes that the fence refused. */
function writesOf(
  run: RunModel,
  sale: SaleModel,
  start: number,
  ranks: ReadonlyMap<string, number>,
): TimelineWrite[] {
  const purchases = [...sale.purchases].filter(
    ([, { outcome }]) => sale.mode === 'none' || outcome === 'refused',
  );
  // Two purchases that read the same stock write the same number: the second one sells a piece again.
  const seen = new Set<number>();
  return purchases
    .sort(([, a], [, b]) => (a.endedAt ?? Infinity) - (b.endedAt ?? Infinity))
    .map(([id, { instance, readAt, endedAt, outcome, stock, token }]) => {
      const isRepeated = stock !== undefined && seen.has(stock);
      if (stock !== undefined) seen.add(stock);
      const end = endedAt ?? diedAt(run, { instance, since: readAt });
      return {
        id,
        lane: instance - 1,
        read: readAt - start,
        written: end === undefined ? undefined : end - start,
        outcome:
          outcome === 'refused' ? 'refused' : isRepeated ? 'overwrote' : outcome && 'written',
        value: stock,
        token,
        rank: token === undefined ? undefined : ranks.get(token),
      };
    });
}
