import type { BandKind, TimelineBand, TimelineData } from './data.js';
import { LABEL_HEIGHT, type LaneLayout, type PlacedItem, type TimelineLayout } from './layout.js';
import type { TimelineText } from './text.js';

/** Colours of a timeline, as CSS colours. */
export interface TimelineTheme {
  readonly ground: string;
  readonly text: string;
  readonly quiet: string;
  readonly line: string;
  readonly hold: string;
  readonly wait: string;
  readonly bad: string;
  readonly warn: string;
  readonly keys: readonly string[];
  readonly font: string;
}

/** The part of the run that is shown. */
export interface TimelineView {
  readonly from: number;
  readonly until: number;
}

export interface Picture {
  readonly data: TimelineData;
  readonly layout: TimelineLayout;
  readonly view: TimelineView;
  readonly width: number;
  /** Width of the names of the lanes; 0 where the names are drawn elsewhere. */
  readonly left: number;
  readonly theme: TimelineTheme;
  readonly text: TimelineText;
  /** The bar that the user selected with the keyboard. */
  readonly selected?: PlacedItem;
  /** Leases of other keys are not shown. */
  readonly key?: string;
}

export const AXIS_HEIGHT = 24;
/** With more connectors than these nothing else could be seen, so none is drawn. */
const MOST_CONNECTORS = 300;

type Canvas = CanvasRenderingContext2D;

/** Pixels beside the picture. The edges of bars that reach beyond the view lie there. */
const MARGIN = 20;

/** Limited to the picture and its margin: at the maximum zoom, a long bar would have millions of hatching lines. */
function xOf({ view, width, left }: Picture, at: number) {
  const x = left + ((at - view.from) / (view.until - view.from)) * (width - left);
  return Math.min(Math.max(x, left - MARGIN), width + MARGIN);
}

export function timeAt({ view, width, left }: Pick<Picture, 'view' | 'width' | 'left'>, x: number) {
  return view.from + ((x - left) / (width - left)) * (view.until - view.from);
}

/** Draws the lanes and the axis below them. The canvas is `layout.height + AXIS_HEIGHT` high. */
export function paintTimeline(canvas: Canvas, picture: Picture): void {
  const { data, layout, width, left, theme } = picture;
  canvas.font = `11px ${theme.font}`;
  canvas.textBaseline = 'middle';
  canvas.textAlign = 'left';
  canvas.save();
  canvas.beginPath();
  canvas.rect(left, 0, width - left, layout.height);
  canvas.clip();
  paintGrid(canvas, picture);
  for (const [lane, place] of layout.lanes.entries()) {
    const bands = bandsOf(data, lane);
    const unconfirmed = bands.filter(({ kind }) => kind === 'unconfirmed');
    for (const band of bands) {
      if (band.kind !== 'unconfirmed') paintBand(canvas, picture, place, band);
    }
    paintWaits(canvas, picture, place);
    for (const item of place.items) paintItem(canvas, picture, item);
    // Drawn last, so that an unconfirmed period covers the bars in it.
    for (const band of unconfirmed) paintBand(canvas, picture, place, band);
  }
  paintConnectors(canvas, picture);
  for (const [lane, place] of layout.lanes.entries()) {
    paintRefused(canvas, picture, place);
    paintLabels(canvas, picture, place, lane);
  }
  for (const { at } of data.violations) {
    line(canvas, theme.bad, 1.5, [xOf(picture, at), 0], [xOf(picture, at), layout.height]);
  }
  canvas.restore();
  if (left > 0) paintNames(canvas, picture);
  paintAxis(canvas, picture);
}

const bandsOf = (data: TimelineData, lane: number) =>
  data.bands.filter((band) => band.lane === lane).sort((a, b) => a.from - b.from);

/** Round times about 90 pixels apart. */
function ticks({ view, width, left }: Pick<Picture, 'view' | 'width' | 'left'>) {
  const least = ((view.until - view.from) / Math.max(1, width - left)) * 90;
  const power = 10 ** Math.floor(Math.log10(least));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((each) => each >= least)!;
  const times: number[] = [];
  for (let n = Math.ceil(view.from / step - 1e-9); n * step <= view.until; n++)
    times.push(n * step);
  return { times, step };
}

function paintGrid(canvas: Canvas, picture: Picture): void {
  const { theme, layout } = picture;
  for (const time of ticks(picture).times) {
    const x = Math.round(xOf(picture, time)) + 0.5;
    for (const lane of layout.lanes)
      line(canvas, theme.line, 1, [x, lane.labels], [x, lane.bottom]);
  }
}

function paintAxis(canvas: Canvas, picture: Picture): void {
  const { theme, layout, width, left } = picture;
  const { times, step } = ticks(picture);
  canvas.fillStyle = theme.quiet;
  canvas.textAlign = 'center';
  const y = layout.height + AXIS_HEIGHT / 2;
  for (const time of times) {
    const label = axisLabel(time, step);
    const half = canvas.measureText(label).width / 2;
    const x = Math.max(left + half, Math.min(width - half, xOf(picture, time)));
    canvas.fillText(label, x, y);
  }
  canvas.textAlign = 'left';
}

/** In seconds, or in milliseconds where the ticks are closer than 10 ms. */
function axisLabel(time: number, step: number): string {
  if (step < 10) return `${Number(time.toFixed(3))} ms`;
  const digits = step >= 1000 ? 0 : step >= 100 ? 1 : 2;
  return `${(time / 1000).toFixed(digits)} s`;
}

function paintNames(canvas: Canvas, { data, layout, theme, width }: Picture): void {
  for (const [lane, name] of data.lanes.entries()) {
    const { top, bottom } = layout.lanes[lane]!;
    canvas.fillStyle = theme.text;
    canvas.fillText(name, 0, top + LABEL_HEIGHT + 8);
    line(canvas, theme.line, 1, [0, bottom - 4.5], [width, bottom - 4.5]);
  }
}

function bandColour({ kind }: TimelineBand, theme: TimelineTheme): string {
  if (kind === 'lost') return theme.bad;
  if (kind === 'dead' || kind === 'unconfirmed') return theme.quiet;
  return theme.warn;
}

/** Kinds of which nothing is known: no background, but hatching. */
const HATCHED: readonly string[] = ['unconfirmed', 'dead'] satisfies BandKind[];

function paintBand(canvas: Canvas, picture: Picture, lane: LaneLayout, band: TimelineBand): void {
  const { data, theme, view } = picture;
  const until = band.until ?? data.until;
  if (until < view.from || band.from > view.until) return;
  const left = xOf(picture, band.from);
  const size = Math.max(2, xOf(picture, until) - left);
  const [top, height] = [lane.labels, lane.bottom - lane.labels - 6];
  const colour = bandColour(band, theme);
  if (band.kind === 'unconfirmed') {
    canvas.globalAlpha = 0.85;
    canvas.fillStyle = theme.ground;
    canvas.fillRect(left, top, size, height);
    canvas.globalAlpha = 1;
  }
  if (HATCHED.includes(band.kind)) hatch(canvas, colour, 0.28, left, top, size, height, 7);
  canvas.globalAlpha = HATCHED.includes(band.kind) ? 0.07 : 0.13;
  canvas.fillStyle = colour;
  canvas.fillRect(left, top, size, height);
  canvas.globalAlpha = 1;
  canvas.fillRect(left, top, size, 2);
}

/** Fills a rectangle with diagonal lines. */
function hatch(
  canvas: Canvas,
  colour: string,
  alpha: number,
  left: number,
  top: number,
  width: number,
  height: number,
  pitch: number,
): void {
  canvas.save();
  canvas.beginPath();
  canvas.rect(left, top, width, height);
  canvas.clip();
  canvas.globalAlpha = alpha;
  hatchLines(canvas, colour, left, top, width, height, pitch);
  canvas.restore();
}

function hatchLines(
  canvas: Canvas,
  colour: string,
  left: number,
  top: number,
  width: number,
  height: number,
  pitch: number,
): void {
  canvas.strokeStyle = colour;
  canvas.lineWidth = 1;
  canvas.beginPath();
  // The lines lie on a fixed grid, so that they do not move when the rectangle grows.
  const start = Math.floor((left - height) / pitch) * pitch;
  for (let x = start; x < left + width; x += pitch) {
    canvas.moveTo(x, top + height);
    canvas.lineTo(x + height, top);
  }
  canvas.stroke();
}

function paintWaits(canvas: Canvas, picture: Picture, lane: LaneLayout): void {
  const { data, layout, theme } = picture;
  if (lane.waits.length === 0) return;
  const [top, bottom] = lane.waitArea;
  const scale = (bottom - top) / layout.mostWaiters;
  const yOf = (waiters: number) => (waiters === 0 ? bottom : bottom - Math.max(3, waiters * scale));
  let last = 0;
  const start = xOf(picture, lane.waits[0]![0]);
  canvas.beginPath();
  canvas.moveTo(start, bottom);
  for (const [at, waiters] of lane.waits) {
    const x = xOf(picture, at);
    canvas.lineTo(x, yOf(last));
    canvas.lineTo(x, yOf(waiters));
    last = waiters;
  }
  const end = xOf(picture, last === 0 ? lane.waits.at(-1)![0] : data.until);
  canvas.lineTo(end, yOf(last));
  canvas.lineTo(end, bottom);
  canvas.save();
  canvas.globalAlpha = 0.16;
  canvas.fillStyle = theme.wait;
  canvas.fill();
  canvas.clip();
  canvas.globalAlpha = 0.55;
  hatchLines(canvas, theme.wait, start, top, end - start, bottom - top, 5);
  canvas.restore();
}

function paintItem(canvas: Canvas, picture: Picture, placed: PlacedItem): void {
  const { data, theme, view, selected } = picture;
  const { item, top, height } = placed;
  if (item.kind === 'write') {
    const { read, written = data.until, outcome } = item.write;
    if (outcome === 'refused' || written < view.from || read > view.until) return;
    const left = xOf(picture, read);
    canvas.fillStyle = outcome === 'overwrote' ? theme.bad : theme.hold;
    if (!outcome) canvas.globalAlpha = 0.5;
    canvas.fillRect(left, top, Math.max(1, xOf(picture, written) - left), height);
    canvas.globalAlpha = 1;
    if (placed === selected)
      strokeRectangle(canvas, theme.text, left, top, xOf(picture, written) - left, height);
    return;
  }
  const { requested, granted, ended, outcome, lockFreedAt, key } = item.lease;
  const end = xOf(picture, ended ?? data.until);
  const middle = top + height / 2;
  const colour = colourOf(picture, key);
  const isWaitShown =
    requested !== undefined && picture.layout.lanes[item.lease.lane]!.waits.length === 0;
  if (isWaitShown) {
    const until = granted === undefined ? end : xOf(picture, granted);
    const from = xOf(picture, requested);
    if (height >= 6)
      hatch(
        canvas,
        granted === undefined && outcome ? theme.quiet : colour,
        0.6,
        from,
        top + 2,
        until - from,
        height - 4,
        5,
      );
    else line(canvas, colour, Math.min(2, height / 2), [from, middle], [until, middle]);
  }
  if (granted === undefined) {
    if (isWaitShown && outcome) {
      canvas.fillStyle = theme.quiet;
      canvas.fillRect(end - 1.5, top, 3, height);
    }
    return;
  }
  const left = xOf(picture, granted);
  if (Math.max(end, xOf(picture, lockFreedAt ?? 0)) < picture.left || left > picture.width) return;
  const size = Math.max(1, end - left - (end - left > 4 ? 0.75 : 0));
  canvas.fillStyle = colour;
  canvas.fillRect(left, top, size, height);
  const isLate = lockFreedAt !== undefined && lockFreedAt < (ended ?? data.until);
  if (isLate) {
    const lost = Math.max(left, xOf(picture, lockFreedAt));
    canvas.fillStyle = theme.ground;
    canvas.fillRect(lost, top, end - lost, height);
    hatch(canvas, theme.bad, 0.8, lost, top, end - lost, height, 4);
    strokeRectangle(canvas, theme.bad, lost, top, end - lost, height, [3, 3]);
  }
  if (outcome !== undefined && outcome !== 'released') {
    canvas.fillStyle = theme.bad;
    canvas.fillRect(left + size - Math.min(3, size), top - 1, Math.min(3, size), height + 2);
    if (lockFreedAt !== undefined && ended !== undefined && lockFreedAt > ended) {
      const width = xOf(picture, lockFreedAt) - end;
      hatch(canvas, colour, 0.5, end, top, width, height, 4);
      strokeRectangle(canvas, colour, end, top, width, height, [3, 3]);
    }
  }
  if (placed === selected) strokeRectangle(canvas, theme.text, left, top, size, height);
}

/** The first key has the colour of a hold; each other key has a colour of its own. */
export function colourOf({ data, theme }: Pick<Picture, 'data' | 'theme'>, key: string): string {
  const number = keysOf(data).indexOf(key);
  return number <= 0 ? theme.hold : theme.keys[(number - 1) % theme.keys.length]!;
}

const keysByData = new WeakMap<readonly unknown[], readonly string[]>();

export function keysOf({ leases }: Pick<TimelineData, 'leases'>): readonly string[] {
  let keys = keysByData.get(leases);
  if (!keys) {
    keys = [...new Set(leases.map(({ key }) => key))].sort();
    keysByData.set(leases, keys);
  }
  return keys;
}

function strokeRectangle(
  canvas: Canvas,
  colour: string,
  left: number,
  top: number,
  width: number,
  height: number,
  dash: number[] = [],
): void {
  canvas.save();
  canvas.strokeStyle = colour;
  canvas.lineWidth = dash.length > 0 ? 1 : 2;
  canvas.setLineDash(dash);
  canvas.strokeRect(left + 0.5, top + 0.5, Math.max(1, width - 1), height - 1);
  canvas.restore();
}

function paintRefused(canvas: Canvas, picture: Picture, lane: LaneLayout): void {
  const { theme } = picture;
  for (const { item, top, height } of lane.items) {
    if (item.kind !== 'write' || item.write.outcome !== 'refused') continue;
    const x = xOf(picture, item.write.written!);
    const y = top + height / 2;
    for (const [colour, width] of [
      [theme.ground, 7],
      [theme.bad, 3],
    ] as const) {
      canvas.lineCap = 'round';
      line(canvas, colour, width, [x - 6, y - 6], [x + 6, y + 6]);
      line(canvas, colour, width, [x - 6, y + 6], [x + 6, y - 6]);
      canvas.lineCap = 'butt';
    }
  }
}

/** Names of bands, then ranks of tokens where there is room left. */
function paintLabels(canvas: Canvas, picture: Picture, lane: LaneLayout, number: number): void {
  const { data, theme, text, left: edge, width } = picture;
  const y = lane.labels + LABEL_HEIGHT / 2 + 1;
  const taken: [number, number][] = [];
  /** Writes a label; to the right of others, if it may move there. */
  const write = (label: string, at: number, colour: string, until = Infinity, mayMove = false) => {
    if (at < edge || at > width) return;
    const size = canvas.measureText(label).width;
    let x = Math.min(Math.max(at, edge + 1), width - size - 1);
    const other = () => taken.find(([from, to]) => x < to + 6 && x + size > from - 6);
    for (let found = other(); found; found = other()) {
      if (!mayMove) return;
      x = found[1] + 7;
    }
    if (x + size > Math.min(until, width)) return;
    taken.push([x, x + size]);
    drawTextWithHalo(canvas, theme, label, x, y, colour);
  };
  const grants = lane.items
    .flatMap(({ item }) =>
      item.kind === 'lease' && item.lease.granted !== undefined && item.lease.rank !== undefined
        ? [item.lease]
        : [],
    )
    .sort((a, b) => a.granted! - b.granted!);
  const writeRank = ({ granted, rank }: (typeof grants)[number]) =>
    write(`#${rank}`, xOf(picture, granted!), theme.quiet);
  for (const { item } of lane.items) {
    if (item.kind !== 'write' || item.write.outcome !== 'refused') continue;
    write(text.refused, xOf(picture, item.write.written!) + 10, theme.bad);
  }
  // The interrupted holds are the ones to read about.
  for (const lease of grants) {
    if (lease.outcome !== undefined && lease.outcome !== 'released') writeRank(lease);
  }
  for (const band of bandsOf(data, number)) {
    const end = xOf(picture, band.until ?? data.until);
    const start = Math.max(edge, xOf(picture, band.from)) + 4;
    const name = band.label ?? (band.kind === 'fault' ? text.fault : text.bands[band.kind]);
    if (end > edge) write(name, start, theme.text, band.until === undefined ? Infinity : end, true);
  }
  for (const lease of grants) writeRank(lease);
  const isUnconfirmed = bandsOf(data, number).some(
    ({ kind, until }) => kind === 'unconfirmed' && until === undefined,
  );
  if (lane.waits.length > 0 && !isUnconfirmed) paintWaitCount(canvas, picture, lane);
}

function paintWaitCount(canvas: Canvas, picture: Picture, lane: LaneLayout): void {
  const { theme, text, data } = picture;
  const [at, waiters] = lane.waits.reduce((most, step) => (step[1] > most[1] ? step : most));
  const present = lane.waits.at(-1)![1];
  const isLive = present > 0 && picture.view.until >= data.until;
  const label = text.waiting(isLive ? present : waiters);
  const size = canvas.measureText(label).width;
  const middle = isLive ? data.until : at;
  const x = Math.min(
    Math.max(xOf(picture, middle) - (isLive ? size + 8 : size / 2), picture.left + 6),
    picture.width - size - 6,
  );
  const y = lane.waitArea[1] - 9;
  if (waiters < 2) return;
  drawTextWithHalo(canvas, theme, label, x, y, theme.text);
}

/** Text that can be read on lines and hatching. */
function drawTextWithHalo(
  canvas: Canvas,
  theme: TimelineTheme,
  label: string,
  x: number,
  y: number,
  colour: string,
): void {
  canvas.lineJoin = 'round';
  canvas.lineWidth = 4;
  canvas.strokeStyle = theme.ground;
  canvas.strokeText(label, x, y);
  canvas.fillStyle = colour;
  canvas.fillText(label, x, y);
}

/** The hand-overs in the view; none if there are too many of them. */
function visibleHandOvers({ data, layout, view }: Pick<Picture, 'data' | 'layout' | 'view'>) {
  const seen = data.handOvers.filter(([ended, granted]) => {
    if (!layout.middles.has(ended) || !layout.middles.has(granted)) return false;
    return endOf(data, ended) <= view.until && data.leases[granted]!.granted! >= view.from;
  });
  return seen.length > MOST_CONNECTORS ? [] : seen;
}

const endOf = (data: TimelineData, index: number) => {
  const { lockFreedAt, ended } = data.leases[index]!;
  return lockFreedAt ?? ended ?? data.until;
};

function paintConnectors(canvas: Canvas, picture: Picture): void {
  const { data, layout, theme } = picture;
  const seen = visibleHandOvers(picture);
  canvas.save();
  canvas.globalAlpha = seen.length > picture.width / 16 ? 0.25 : 0.7;
  for (const [ended, granted] of seen) {
    const [toX, toY] = [xOf(picture, data.leases[granted]!.granted!), layout.middles.get(granted)!];
    const fromX = Math.min(xOf(picture, endOf(data, ended)), toX);
    const fromY = layout.middles.get(ended)!;
    const down = toY > fromY ? 1 : -1;
    const [startY, endY] = [fromY + down * 9, toY - down * 10];
    const bend = (endY - startY) / 2;
    canvas.strokeStyle = theme.text;
    canvas.fillStyle = theme.text;
    canvas.lineWidth = 1;
    canvas.beginPath();
    canvas.moveTo(fromX, startY);
    canvas.bezierCurveTo(fromX, startY + bend, toX, endY - bend, toX, endY);
    canvas.stroke();
    canvas.beginPath();
    canvas.moveTo(toX, endY + down * 2);
    canvas.lineTo(toX - 3, endY - down * 4);
    canvas.lineTo(toX + 3, endY - down * 4);
    canvas.fill();
  }
  canvas.restore();
}

function line(
  canvas: Canvas,
  colour: string,
  width: number,
  from: readonly [number, number],
  to: readonly [number, number],
): void {
  canvas.strokeStyle = colour;
  canvas.lineWidth = width;
  canvas.beginPath();
  canvas.moveTo(...from);
  canvas.lineTo(...to);
  canvas.stroke();
}
