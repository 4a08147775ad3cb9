import type { LiveRun } from './live-run.js';
import type { Messages } from './messages/messages.js';
import { verdictOf } from './run/verdict.js';
import { saleTimeline, type ShownSale } from './sales.js';
import { layOut } from './timeline/layout.js';
import { AXIS_HEIGHT, paintTimeline } from './timeline/paint.js';
import { readTheme } from './timeline/timeline.js';

const WIDTH = 1200;
const MARGIN = 56;
const GAP = 48;
const TOP = 150;
const SUMMARY = 110;
const LANE_BODY = 84;
/** Width of the names of the lanes in the first timeline. */
const NAMES = 84;
const SCALE = 2;

interface PictureOptions {
  messages: Messages;
  /** The number of servers. */
  servers: number;
  live: LiveRun;
  sales: readonly ShownSale[];
  /** The link to the run. */
  address?: string | undefined;
  /** Its style names the colours. */
  element: Element;
}

/** Draws a run as a picture: the headline, and the verdict, the figures and the timeline of each sale. */
export function drawPicture(options: PictureOptions): HTMLCanvasElement {
  const { messages, servers, live, sales, address, element } = options;
  const theme = readTheme(element);
  const good = getComputedStyle(element).getPropertyValue('--good');
  const pictures = sales.map(({ sale }) => {
    const data = saleTimeline(live, messages, sale);
    return { data, layout: layOut(data, { head: 0, body: LANE_BODY }, 'area') };
  });
  const timelines = Math.max(...pictures.map(({ layout }) => layout.height)) + AXIS_HEIGHT;
  const height = TOP + SUMMARY + timelines + MARGIN + 24;
  const canvas = document.createElement('canvas');
  canvas.width = WIDTH * SCALE;
  canvas.height = height * SCALE;
  const context = canvas.getContext('2d')!;
  context.scale(SCALE, SCALE);
  context.fillStyle = theme.ground;
  context.fillRect(0, 0, WIDTH, height);
  const write = (
    text: string,
    x: number,
    y: number,
    font: string,
    colour: string,
    most?: number,
  ) => {
    context.font = `${font} ${theme.font}`;
    context.fillStyle = colour;
    context.textBaseline = 'alphabetic';
    context.fillText(text, x, y, most);
  };
  const { items, buyers } = sales.find(({ sale }) => sale)!.sale!;
  write(
    messages.headline(items, buyers, servers),
    MARGIN,
    104,
    '650 44px',
    theme.text,
    WIDTH - 2 * MARGIN,
  );
  const width = (WIDTH - 2 * MARGIN - GAP * (sales.length - 1) - NAMES) / sales.length;
  for (const [index, { mode, sale, status }] of sales.entries()) {
    const { data, layout } = pictures[index]!;
    const left = index === 0 ? NAMES : 0;
    const start = MARGIN + index * (width + GAP) + (index === 0 ? 0 : NAMES);
    write(messages.modes[mode].title, start, TOP, '500 16px', theme.quiet);
    if (sale) {
      const verdict = verdictOf(sale, status);
      const colour = { good, bad: theme.bad, warn: theme.warn, neutral: theme.text };
      const sentence = messages.verdict(verdict);
      write(sentence, start, TOP + 36, '600 25px', colour[verdict.tone], width + left);
      const figures = (['sold', 'soldOut', 'refused', 'unanswered'] as const)
        .map((part) => `${messages.tally[part]} ${verdict.tally[part].toLocaleString()}`)
        .join('   ');
      write(figures, start, TOP + 66, '400 15px', theme.text, width + left);
    }
    context.save();
    context.translate(start, TOP + SUMMARY - 16);
    const view = { from: data.from, until: data.until };
    const text = messages.timeline;
    paintTimeline(context, { data, layout, view, width: width + left, left, theme, text });
    context.restore();
  }
  const source = address ? `nestjs-zookeeper · ${address}` : 'nestjs-zookeeper';
  write(source, MARGIN, height - MARGIN + 20, '500 15px', theme.quiet, WIDTH - 2 * MARGIN);
  return canvas;
}
