import type { TimelineData, TimelineLease, TimelineWrite } from './data.js';

/** Sizes in CSS pixels. */
export interface LaneSizes {
  /** Height above the bars, for elements that are not drawn on the canvas. */
  readonly head: number;
  /** Height of the bars. Undefined: as high as the rows need. */
  readonly body?: number;
}

/** How waits are drawn: as a hatched area whose height is the number of waiters, or each in the row of its lease. */
export type WaitStyle = 'area' | 'rows';

/** A bar of a lane: an acquire, or a write with the read before it. */
export type TimelineItem =
  | { readonly kind: 'lease'; readonly lease: TimelineLease; readonly index: number }
  | { readonly kind: 'write'; readonly write: TimelineWrite };

export interface PlacedItem {
  readonly item: TimelineItem;
  readonly top: number;
  readonly height: number;
}

/** Number of waiters from `at` to the next step. */
export type WaitStep = readonly [at: number, waiters: number];

export interface LaneLayout {
  readonly top: number;
  readonly bottom: number;
  /** Top of the labels of bands and tokens. */
  readonly labels: number;
  readonly items: readonly PlacedItem[];
  readonly waits: readonly WaitStep[];
  /** Top and bottom of the area of waits. */
  readonly waitArea: readonly [top: number, bottom: number];
}

export interface TimelineLayout {
  readonly lanes: readonly LaneLayout[];
  readonly height: number;
  readonly mostWaiters: number;
  /** Middle of the bar of each lease that is shown. */
  readonly middles: ReadonlyMap<number, number>;
}

export const LABEL_HEIGHT = 16;
export const LANE_GAP = 10;
const ROW = 14;
/** Rows of a lane beyond these are thin, and share `THIN_ROWS` pixels. */
const TALL_ROWS = 8;
const THIN_ROWS = 120;
const THINNEST = 2;
/** Heights of a row in a lane of a fixed height. */
const TALLEST = 34;
const TALLEST_WRITE = 12;

/** Gives each bar a place: bars of a lane that overlap in time lie in different rows. */
export function layOut(
  data: TimelineData,
  sizes: LaneSizes,
  waitStyle: WaitStyle,
  key?: string,
): TimelineLayout {
  const byLane = data.lanes.map((): TimelineItem[] => []);
  for (const [index, lease] of data.leases.entries()) {
    if (key === undefined || lease.key === key) {
      byLane[lease.lane]!.push({ kind: 'lease', lease, index });
    }
  }
  for (const write of data.writes) byLane[write.lane]!.push({ kind: 'write', write });
  const middles = new Map<number, number>();
  const waits = byLane.map((items) => (waitStyle === 'area' ? waitSteps(items) : []));
  let height = 0;
  const lanes = byLane.map((items, lane): LaneLayout => {
    const top = height;
    const labels = top + sizes.head;
    const bars = items.filter((item) => isBar(item, waitStyle));
    const hasWrites = bars.some(({ kind }) => kind === 'write');
    const rows = inRows(bars, data.until, waitStyle);
    const count = rows.length;
    const bodyTop = labels + LABEL_HEIGHT;
    const waitHeight = waitStyle === 'area' && sizes.body ? sizes.body * 0.5 : 0;
    const hasWaits = waits[lane]!.length > 0;
    const body = sizes.body ?? Math.max(ROW, heightOf(count, count));
    const room = hasWaits ? body - waitHeight - 6 : body;
    const place = sizes.body
      ? (row: number) => evenly(row, Math.max(1, count), room, hasWrites ? TALLEST_WRITE : TALLEST)
      : (row: number) => ({ top: heightOf(row, count), pitch: pitchOf(row, count) });
    const placed = rows.flatMap((row, number) => {
      const { top: offset, pitch } = place(number);
      const bar = pitch > 4 ? pitch - 2 : pitch * 0.8;
      return row.map((item): PlacedItem => {
        if (item.kind === 'lease') middles.set(item.index, bodyTop + offset + bar / 2);
        return { item, top: bodyTop + offset, height: bar };
      });
    });
    for (const item of items) {
      if (item.kind !== 'write' || isBar(item, waitStyle)) continue;
      placed.push({ item, top: bodyTop, height: Math.min(room, TALLEST) - 2 });
    }
    height = bodyTop + body + LANE_GAP;
    return {
      top,
      bottom: height,
      labels,
      items: placed,
      waits: waits[lane]!,
      waitArea: [bodyTop + body - waitHeight, bodyTop + body],
    };
  });
  const mostWaiters = Math.max(1, ...waits.flat().map(([, waiters]) => waiters));
  return { lanes, height, mostWaiters, middles };
}

const thinPitch = (rows: number) =>
  Math.min(ROW, Math.max(THINNEST, THIN_ROWS / Math.max(1, rows - TALL_ROWS)));
const heightOf = (row: number, rows: number) =>
  Math.min(row, TALL_ROWS) * ROW + Math.max(0, row - TALL_ROWS) * thinPitch(rows);
const pitchOf = (row: number, rows: number) => (row < TALL_ROWS ? ROW : thinPitch(rows));
const evenly = (row: number, rows: number, room: number, tallest: number) => {
  const pitch = Math.min(tallest, room / rows);
  return { top: row * pitch, pitch };
};

/** A refused write is a cross on the bar of its lease. A lease that still waits is part of the area of waits. */
function isBar(item: TimelineItem, waitStyle: WaitStyle): boolean {
  if (item.kind === 'write') return item.write.outcome !== 'refused';
  return waitStyle === 'rows' || item.lease.granted !== undefined;
}

/** The time that the row of a bar is taken. */
export function spanOf(item: TimelineItem, now: number, waitStyle: WaitStyle): [number, number] {
  if (item.kind === 'write') return [item.write.read, item.write.written ?? now];
  const { requested, granted, ended, lockFreedAt } = item.lease;
  const from = waitStyle === 'rows' ? (requested ?? granted) : (granted ?? requested);
  return [from ?? now, Math.max(ended ?? now, lockFreedAt ?? 0)];
}

/** Long bars come first, so they are at the top. */
function inRows(items: readonly TimelineItem[], now: number, waitStyle: WaitStyle) {
  const spans = items.map((item) => ({ item, span: spanOf(item, now, waitStyle) }));
  spans.sort((a, b) => b.span[1] - b.span[0] - (a.span[1] - a.span[0]));
  const rows: { item: TimelineItem; span: [number, number] }[][] = [];
  for (const one of spans) {
    if (!rows.some((row) => tryInsert(row, one))) rows.push([one]);
  }
  return rows.map((row) => row.map(({ item }) => item));
}

/** Adds a bar to a row, whose bars are in the order of time. False where it overlaps one of them. */
function tryInsert<T extends { span: [number, number] }>(row: T[], one: T): boolean {
  let low = 0;
  let high = row.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (row[middle]!.span[0] < one.span[0]) low = middle + 1;
    else high = middle;
  }
  if (row[low - 1] && row[low - 1]!.span[1] > one.span[0]) return false;
  if (row[low] && row[low]!.span[0] < one.span[1]) return false;
  row.splice(low, 0, one);
  return true;
}

function waitSteps(items: readonly TimelineItem[]): WaitStep[] {
  const changes: [at: number, by: number][] = [];
  for (const item of items) {
    if (item.kind !== 'lease' || item.lease.requested === undefined) continue;
    const until = item.lease.granted ?? item.lease.ended;
    changes.push([item.lease.requested, 1]);
    if (until !== undefined) changes.push([until, -1]);
  }
  changes.sort(([a], [b]) => a - b);
  let waiters = 0;
  return changes.map(([at, by]) => [at, (waiters += by)]);
}
