const WIDTH = 760;
const LEFT = 150;
const RIGHT = 70;
const BAR = 14;
const GAP = 18;
const TITLE = 36;
const PLOT = { height: 240, bottom: 48 };
/** Height of the numbers and the title of an axis. */
const AXIS = 42;
/** Left edge of the names of lines: the lines begin high at the left. */
const NAMES = 400;

/** A colour for each system, from the palette of Okabe and Ito for colour-blind readers. */
const COLOURS = {
  'ours (wire)': '#56b4e9',
  'ours (native)': '#0072b2',
  'ours (embedded)': '#009e73',
  curator: '#d55e00',
  kazoo: '#e69f00',
  redlock: '#cc79a7',
  raw: '#888888',
};
/** Of this library in another runtime or another version of Node. */
const OTHER = '#9467bd';

/** A picture has the colours of its page, and those of the system where a browser does not tell it those of the page. */
const STYLE = `
text { font: 11px sans-serif; fill: #222 }
.ground { fill: #fff }
line { stroke: #ddd }
@media (prefers-color-scheme: dark) {
  text { fill: #dfdfd6 }
  .ground { fill: #1b1b1f }
  line { stroke: #3c3f44 }
}`;

/**
 * Returns a bar chart with groups of bars on a logarithmic scale, as SVG.
 *
 * @param groups `{ title, bars: { [system]: value } }`
 * @param {string} unit title of the axis
 */
export function barChart(title, groups, unit) {
  const bars = groups.flatMap((group) => Object.entries(group.bars));
  const across = logScale(
    bars.map(([, value]) => value),
    LEFT,
    WIDTH - RIGHT,
  );
  let y = TITLE;
  const shapes = groups.flatMap((group) => {
    const head = text(8, y + 12, group.title, 'font-weight="bold"');
    y += GAP;
    const rows = Object.entries(group.bars).flatMap(([system, value]) => {
      const x = across.of(value);
      const row = [
        text(LEFT - 6, y + 11, system, 'text-anchor="end"'),
        `<rect x="${LEFT}" y="${y}" width="${round(x - LEFT)}" height="${BAR - 2}" fill="${COLOURS[system] ?? OTHER}"/>`,
        text(round(x + 4), y + 11, short(value)),
      ];
      y += BAR;
      return row;
    });
    y += GAP / 2;
    return [head, ...rows];
  });
  const grid = across.ticks.flatMap((tick) => [
    line(across.of(tick), TITLE, across.of(tick), y),
    text(round(across.of(tick)), y + 14, short(tick), 'text-anchor="middle"'),
  ]);
  const axis = text(
    (LEFT + WIDTH - RIGHT) / 2,
    y + 34,
    `${unit}, logarithmic scale`,
    'text-anchor="middle"',
  );
  return svg(title, y + AXIS, [...grid, axis, ...shapes]);
}

/**
 * Returns a line chart on two logarithmic scales, as SVG.
 *
 * @param lines `{ [title]: [x, y][] }`
 * @param {{ x: string, y: string }} axes titles of the axes
 */
export function lineChart(title, lines, axes) {
  const points = Object.values(lines).flat();
  const bottom = TITLE + PLOT.height;
  const across = logScale(
    points.map(([x]) => x),
    LEFT / 2,
    WIDTH - RIGHT,
  );
  const up = logScale(
    points.map(([, y]) => y),
    bottom,
    TITLE,
  );
  const colours = Object.values(COLOURS);
  const grid = [
    ...across.ticks.map((tick) =>
      text(round(across.of(tick)), bottom + 16, short(tick), 'text-anchor="middle"'),
    ),
    ...up.ticks.flatMap((tick) => [
      line(LEFT / 2, up.of(tick), WIDTH - RIGHT, up.of(tick)),
      text(LEFT / 2 - 6, round(up.of(tick) + 4), short(tick), 'text-anchor="end"'),
    ]),
    text((LEFT / 2 + WIDTH - RIGHT) / 2, bottom + 36, axes.x, 'text-anchor="middle"'),
    text(
      0,
      0,
      axes.y,
      `transform="translate(24 ${(bottom + TITLE) / 2}) rotate(-90)" text-anchor="middle"`,
    ),
  ];
  const shapes = Object.entries(lines).flatMap(([name, line], index) => {
    const at = line.map(([x, y]) => `${round(across.of(x))},${round(up.of(y))}`).join(' ');
    const fill = colours[index * 3];
    return [
      `<polyline points="${at}" fill="none" stroke="${fill}" stroke-width="2"/>`,
      `<rect x="${NAMES}" y="${TITLE + 10 + index * 16}" width="14" height="3" fill="${fill}"/>`,
      text(NAMES + 20, TITLE + 16 + index * 16, name),
    ];
  });
  return svg(title, bottom + PLOT.bottom, [...grid, ...shapes]);
}

/** From the power of ten at or below the lowest value to the one at or above the highest. */
function logScale(values, start, end) {
  const lowest = Math.floor(Math.log10(Math.min(...values)));
  const highest = Math.max(lowest + 1, Math.ceil(Math.log10(Math.max(...values))));
  const ticks = Array.from({ length: highest - lowest + 1 }, (_, index) => 10 ** (lowest + index));
  const of = (value) => start + ((Math.log10(value) - lowest) / (highest - lowest)) * (end - start);
  return { ticks, of };
}

function svg(title, height, shapes) {
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" role="img">`,
    `<style>${STYLE}</style>`,
    `<rect class="ground" width="${WIDTH}" height="${height}"/>`,
    text(8, 20, title, 'style="font-size: 14px; font-weight: bold"'),
    ...shapes,
    '</svg>\n',
  ].join('\n');
}

function text(x, y, content, attributes = '') {
  return `<text x="${x}" y="${y}" ${attributes}>${content.replaceAll('&', '&amp;').replaceAll('<', '&lt;')}</text>`;
}

function line(x1, y1, x2, y2) {
  return `<line x1="${round(x1)}" y1="${round(y1)}" x2="${round(x2)}" y2="${round(y2)}"/>`;
}

function short(value) {
  if (value >= 1e6) return `${Number((value / 1e6).toPrecision(3))}M`;
  if (value >= 1e3) return `${Number((value / 1e3).toPrecision(3))}k`;
  return String(Number(value.toPrecision(3)));
}

function round(value) {
  return Math.round(value * 10) / 10;
}
