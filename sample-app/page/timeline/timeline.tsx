import type { ComponentChildren } from 'preact';
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { TimelineData } from './data.js';
import { describeAt, describeItem } from './describe.js';
import { type LaneSizes, layOut, type PlacedItem, type WaitStyle } from './layout.js';
import {
  AXIS_HEIGHT,
  colourOf,
  keysOf,
  paintTimeline,
  type Picture,
  type TimelineTheme,
  type TimelineView,
  timeAt,
} from './paint.js';
import { LeaseTable } from './lease-table.js';
import { ENGLISH, type TimelineText } from './text.js';

interface TimelineProps {
  data: TimelineData;
  text?: TimelineText;
  /** Default: rows of a fixed height. */
  sizes?: LaneSizes;
  /** Default: `rows`. */
  waitStyle?: WaitStyle;
  /** Content above the bars of a lane; `sizes.head` is its height. Without it, the lane's name is drawn on the left. */
  head?: (lane: number) => ComponentChildren;
}

const NARROWEST = 0.05;

/** Draws who waited for locks and held them. See `TimelineData`. */
export function Timeline({
  data,
  text = ENGLISH,
  sizes = { head: 0 },
  waitStyle = 'rows',
  head,
}: TimelineProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const box = useRef<HTMLDivElement>(null);
  const { width, unit } = useSize(box);
  const theme = useTheme(box);
  const [key, setKey] = useState<string>();
  /** Undefined: the whole run. */
  const [chosen, setView] = useState<TimelineView>();
  const [details, setDetails] = useState('');
  const [selected, setSelected] = useState<number | string>();
  const [hasFocus, setFocus] = useState(false);

  const { head: headHeight, body } = sizes;
  const layout = useMemo(
    () => layOut(data, { head: headHeight, body }, waitStyle, key),
    [data, headHeight, body, waitStyle, key],
  );
  const items = useMemo(
    () =>
      layout.lanes
        .flatMap((lane) => lane.items)
        .sort((a, b) => startOf(a) - startOf(b) || a.top - b.top),
    [layout],
  );
  const position = items.findIndex(({ item }) => identityOf(item) === selected);
  const view = chosen ?? { from: data.from, until: data.until };
  const left = head ? 0 : namesWidth(data.lanes);
  const picture: Picture | undefined = theme && {
    data,
    layout,
    view,
    width,
    left,
    theme,
    text,
    key,
    selected: items[position],
  };
  const height = layout.height + AXIS_HEIGHT;

  useLayoutEffect(() => {
    const context = canvas.current?.getContext('2d');
    if (!context || !picture || width === 0) return;
    const scale = devicePixelRatio * unit;
    const { canvas: target } = context;
    if (target.width !== Math.round(width * scale)) target.width = Math.round(width * scale);
    if (target.height !== Math.round(height * scale)) target.height = Math.round(height * scale);
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.clearRect(0, 0, width, height);
    paintTimeline(context, picture);
    // `picture` is a new object on each render; these are its parts.
  }, [data, layout, view.from, view.until, width, unit, theme, text, picture?.selected, key]);

  const move = (from: number, until: number) => {
    const whole = data.until - data.from;
    const size = Math.min(Math.max(until - from, NARROWEST), whole);
    const start = Math.min(Math.max(data.from, from), data.until - size);
    setView(size >= whole ? undefined : { from: start, until: start + size });
  };
  const zoom = (factor: number, centre = (view.from + view.until) / 2) =>
    move(centre - (centre - view.from) * factor, centre + (view.until - centre) * factor);
  const shift = (by: number) => move(view.from + by, view.until + by);
  const pan = (part: number) => shift(part * (view.until - view.from));
  const select = (index: number) => {
    const next = items[Math.min(Math.max(0, index), items.length - 1)];
    if (!next) return;
    setSelected(identityOf(next.item));
    setDetails(describeItem(next.item, data, text));
    const at = startOf(next);
    if (at < view.from || at > view.until) {
      const half = (view.until - view.from) / 2;
      move(at - half, at + half);
    }
  };

  const onKeyDown = (event: KeyboardEvent) => {
    const action = {
      '+': () => zoom(0.8),
      '=': () => zoom(0.8),
      '-': () => zoom(1.25),
      '−': () => zoom(1.25),
      ArrowLeft: () => pan(-0.1),
      ArrowRight: () => pan(0.1),
      ArrowUp: () => select((position < 0 ? items.length : position) - 1),
      ArrowDown: () => select(position + 1),
      Home: () => select(0),
      End: () => select(items.length - 1),
    }[event.key];
    if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    action();
  };
  const onWheel = (event: WheelEvent) => {
    // Without the focus, the wheel scrolls the page.
    if (!event.ctrlKey && !box.current?.matches(':focus-within')) return;
    event.preventDefault();
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      pan(Math.sign(event.deltaX || event.deltaY) * 0.1);
    } else zoom(event.deltaY > 0 ? 1.25 : 0.8, timeAt({ view, width, left }, event.offsetX / unit));
  };
  const describe = ({ offsetX, offsetY }: PointerEvent) => {
    setSelected(undefined);
    setDetails(picture ? describeAt(picture, offsetX / unit, offsetY / unit) : '');
  };
  const onPointerMove = (event: PointerEvent) => {
    if (event.buttons === 0) describe(event);
    else shift((-event.movementX / unit / width) * (view.until - view.from));
  };
  // A listener of Preact would be passive: it could not keep the page from scrolling.
  const wheel = useRef(onWheel);
  wheel.current = onWheel;
  useEffect(() => {
    const listener = (event: WheelEvent) => wheel.current(event);
    const element = canvas.current!;
    element.addEventListener('wheel', listener, { passive: false });
    return () => element.removeEventListener('wheel', listener);
  }, []);

  const keys = keysOf(data);
  return (
    <div class="timeline">
      {data.violations.map(({ at, property, message }) => (
        <button type="button" class="timeline-violation" onClick={() => move(at - 100, at + 50)}>
          <b>{property}</b> {message}
        </button>
      ))}
      {keys.length > 1 && picture && (
        <p class="timeline-keys">
          <label>
            {text.lock}{' '}
            <select
              value={key ?? ''}
              onChange={(event) => setKey(event.currentTarget.value || undefined)}
            >
              <option value="">{text.allLocks}</option>
              {keys.map((each) => (
                <option value={each}>{each}</option>
              ))}
            </select>
          </label>
          {keys.map((each) => (
            <span>
              <i style={{ background: colourOf(picture, each) }} /> {each}
            </span>
          ))}
        </p>
      )}
      <div
        class="timeline-box"
        ref={box}
        tabIndex={0}
        role="group"
        aria-label={text.summary(data)}
        onKeyDown={onKeyDown}
        onFocus={() => setFocus(true)}
        onBlur={() => setFocus(false)}
        style={{ height: `${height / 16}rem` }}
      >
        <canvas
          ref={canvas}
          aria-hidden="true"
          onPointerMove={onPointerMove}
          onPointerDown={(event) => {
            if (event.pointerType === 'mouse')
              event.currentTarget.setPointerCapture(event.pointerId);
            else describe(event);
          }}
          onPointerLeave={() => setDetails('')}
        />
        {head &&
          layout.lanes.map(({ top }, lane) => (
            <div
              class="timeline-head"
              style={{ top: `${top / 16}rem`, height: `${headHeight / 16}rem` }}
              key={lane}
            >
              {head(lane)}
            </div>
          ))}
      </div>
      <div class="timeline-foot">
        <p class="timeline-details" role="status">
          {details || <span class="timeline-hint">{hasFocus ? text.keys : text.hint}</span>}
        </p>
        <p class="timeline-zoom">
          <button type="button" aria-label={text.zoomOut} onClick={() => zoom(2)}>
            −
          </button>
          <button type="button" aria-label={text.zoomIn} onClick={() => zoom(0.5)}>
            +
          </button>
          <button type="button" disabled={!chosen} onClick={() => setView(undefined)}>
            {text.whole}
          </button>
        </p>
      </div>
      <LeaseTable data={data} view={view} lockKey={key} text={text} />
    </div>
  );
}

/** The places of the bars change during a sale. */
const identityOf = (item: PlacedItem['item']) =>
  item.kind === 'lease' ? item.index : item.write.id;

const startOf = ({ item }: PlacedItem) =>
  item.kind === 'write' ? item.write.read : (item.lease.granted ?? item.lease.requested ?? 0);

const namesWidth = (names: readonly string[]) =>
  Math.min(180, Math.max(0, ...names.map((name) => name.length * 6.5)) + 16);

/** Width in units; a unit is a CSS pixel at the usual size of text, and grows with it. */
function useSize(box: { current: HTMLElement | null }): { width: number; unit: number } {
  const [size, setSize] = useState({ width: 0, unit: 1 });
  useLayoutEffect(() => {
    const element = box.current!;
    const measure = () => {
      const unit = Number.parseFloat(getComputedStyle(document.documentElement).fontSize) / 16;
      setSize({ width: element.clientWidth / unit, unit });
    };
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    measure();
    return () => observer.disconnect();
  }, [box]);
  return size;
}

/** Reads the colours from the style sheet, and again when the colour scheme or the class of the page changes. */
function useTheme(box: { current: HTMLElement | null }): TimelineTheme | undefined {
  const [theme, setTheme] = useState<TimelineTheme>();
  useLayoutEffect(() => {
    const element = box.current!;
    const read = () => setTheme(readTheme(element));
    read();
    const scheme = matchMedia('(prefers-color-scheme: dark)');
    scheme.addEventListener('change', read);
    const observer = new MutationObserver(read);
    observer.observe(document.documentElement, { attributes: true });
    void document.fonts.ready.then(read);
    return () => {
      scheme.removeEventListener('change', read);
      observer.disconnect();
    };
  }, [box]);
  return theme;
}

export function readTheme(element: Element): TimelineTheme {
  const style = getComputedStyle(element);
  const colour = (name: string) => style.getPropertyValue(`--timeline-${name}`).trim();
  return {
    ground: colour('ground'),
    text: colour('text'),
    quiet: colour('quiet'),
    line: colour('line'),
    hold: colour('hold'),
    wait: colour('wait'),
    bad: colour('bad'),
    warn: colour('warn'),
    keys: Array.from({ length: 6 }, (_, index) => colour(`key-${index + 1}`)),
    font: style.fontFamily,
  };
}
