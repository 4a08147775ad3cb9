const WIDTH = 760;
const LEFT = 150;
const RIGHT = 70;
const BAR = 14;
const GAP = 18;
const TITLE = 36;
const PLOT = { height: 240, bottom: 48 };

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

/**
 * Returns a bar chart with groups of bars on a logarithmic scale, as SVG.
 *
 * @param groups `{ title, bars: { [system]: value } }`
 */
export function barChart(title, groups) {
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
        `<rect x="${LEFT}" y="${y}" width="${round(x - LEFT)}" height="${BAR - 2}" fill="${COLOURS[system]}"/>`,
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
  return svg(title, y + 24, [...grid, ...shapes]);
}

/**
 * Returns a line chart on two logarithmic scales, as SVG.
 *
 * @param lines `{ [title]: [x, y][] }`
 */
export function lineChart(title, lines, xTitle) {
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
    text((LEFT / 2 + WIDTH - RIGHT) / 2, bottom + 36, xTitle, 'text-anchor="middle"'),
  ];
  const shapes = Object.entries(lines).flatMap(([name, line], index) => {
    const at = line.map(([x, y]) => `${round(across.of(x))},${round(up.of(y))}`).join(' ');
    const fill = colours[index * 3];
    return [
      `<polyline points="${at}" fill="none" stroke="${fill}" stroke-width="2"/>`,
      text(LEFT / 2 + 12, TITLE + 16 + index * 16, name, `style="fill: ${fill}"`),
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
    '<style>text { font: 11px sans-serif; fill: #222 }</style>',
    `<rect width="${WIDTH}" height="${height}" fill="#fff"/>`,
    text(8, 20, title, 'style="font-size: 14px; font-weight: bold"'),
    ...shapes,
    '</svg>\n',
  ].join('\n');
}

function text(x, y, content, attributes = '') {
  return `<text x="${x}" y="${y}" ${attributes}>${content.replaceAll('&', '&amp;').replaceAll('<', '&lt;')}</text>`;
}

function line(x1, y1, x2, y2) {
  return `<line x1="${round(x1)}" y1="${round(y1)}" x2="${round(x2)}" y2="${round(y2)}" stroke="#ddd"/>`;
}

function short(value) {
  if (value >= 1e6) return `${Number((value / 1e6).toPrecision(3))}M`;
  if (value >= 1e3) return `${Number((value / 1e3).toPrecision(3))}k`;
  return String(Number(value.toPrecision(3)));
}

function round(value) {
  return Math.round(value * 10) / 10;
}
