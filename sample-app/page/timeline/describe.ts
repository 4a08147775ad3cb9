import type { TimelineBand, TimelineData, TimelineLease, TimelineWrite } from './data.js';
import { spanOf, type TimelineItem } from './layout.js';
import { type Picture, timeAt } from './paint.js';
import type { TimelineText } from './text.js';

/** Describes the bar or the band at a point of the canvas; empty where there is none. */
export function describeAt(picture: Picture, x: number, y: number): string {
  const { data, layout, text } = picture;
  const time = timeAt(picture, x);
  const slack = Math.abs(timeAt(picture, x + 3) - time);
  const isAt = (from: number, until: number) => from - slack <= time && time <= until + slack;
  const number = layout.lanes.findIndex(({ labels, bottom }) => y >= labels && y < bottom);
  const lane = layout.lanes[number];
  if (!lane) return '';
  const hasArea = lane.waits.length > 0;
  const isUnder = ({ item, top, height }: (typeof lane.items)[number]) =>
    y >= top - 1 &&
    y <= top + height + 1 &&
    (item.kind === 'write' && item.write.outcome === 'refused'
      ? isAt(item.write.written! - 2 * slack, item.write.written! + 2 * slack)
      : isAt(...spanOf(item, data.until, hasArea ? 'area' : 'rows')));
  // A cross is drawn on the bar of its lease.
  const found = lane.items.findLast((placed) => isUnder(placed));
  if (found) return describeItem(found.item, data, text);
  const band = data.bands.find(
    ({ lane: of, from, until = data.until }) => of === number && isAt(from, until),
  );
  if (band) return describeBand(band, data, text);
  const step = lane.waits.findLast(([at]) => at <= time);
  return step && step[1] > 0 && y >= lane.waitArea[0]
    ? `${data.lanes[number]} · ${text.waiting(step[1])}`
    : '';
}

export function describeItem(item: TimelineItem, data: TimelineData, text: TimelineText): string {
  return item.kind === 'lease'
    ? describeLease(item.lease, data, text)
    : describeWrite(item.write, data, text);
}

export const seconds = (ms: number) => `${(ms / 1000).toFixed(3)} s`;

function describeLease(lease: TimelineLease, { lanes }: TimelineData, text: TimelineText): string {
  const { lane, key, mode, requested, granted, ended, outcome, lockFreedAt, token, rank } = lease;
  const lockName = mode ? `${key} (${mode})` : key;
  return [
    `${lanes[lane]} · ${lockName}`,
    requested !== undefined && requested !== granted && `${text.requested} ${seconds(requested)}`,
    granted !== undefined && `${text.granted} ${seconds(granted)}`,
    ended === undefined
      ? granted !== undefined && text.holding
      : `${text.outcome(outcome ?? '')} ${seconds(ended)}`,
    lockFreedAt !== undefined && `${text.lockFreedAt} ${seconds(lockFreedAt)}`,
    token !== undefined && `${text.token} ${rank === undefined ? '' : `#${rank}, `}${token}`,
  ]
    .filter(Boolean)
    .join(' · ');
}

function describeWrite(write: TimelineWrite, { lanes }: TimelineData, text: TimelineText): string {
  const { lane, read, written, outcome, value, token, rank } = write;
  return [
    lanes[lane],
    `${text.read} ${seconds(read)}`,
    written !== undefined &&
      `${outcome === 'refused' ? text.writeRefused : text.written} ${seconds(written)}${value === undefined ? '' : `: ${value}`}`,
    outcome === 'overwrote' && text.overwrote,
    token !== undefined && `${text.token} ${rank === undefined ? '' : `#${rank}, `}${token}`,
  ]
    .filter(Boolean)
    .join(' · ');
}

function describeBand(band: TimelineBand, data: TimelineData, text: TimelineText): string {
  const { lane, kind, label, from, until } = band;
  const name = label ?? (kind === 'fault' ? text.fault : text.bands[kind]);
  const end = until === undefined ? '…' : seconds(until);
  return `${data.lanes[lane]} · ${name} · ${seconds(from)} – ${end}`;
}
