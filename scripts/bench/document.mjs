import { existsSync } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { format, resolveConfig } from 'prettier';
import { barChart, lineChart } from './charts.mjs';
import { PEERS } from './summary.mjs';
import { number, remarksOf } from './table.mjs';

const DOCUMENT = new URL('../../docs/evidence/benchmark.md', import.meta.url);
const CHARTS = new URL('../../docs/evidence/benchmark/', import.meta.url);
const BEGIN = '<!-- npm run bench -- --write: begin -->';
const END = '<!-- npm run bench -- --write: end -->';

/** @type {Record<string, [title: string, cases: RegExp]>} */
const BARS = {
  hot: ['One contended key', /^hot-/],
  cold: ['Uncontended keys', /^(uncontended|keys-)/],
  shared: ['Permits, readers, leaders', /^(semaphore|read|leader)/],
};

const COST = 'Microseconds per acquire and release';

/** Writes charts and tables between two marks of the document; the text around them stays as it is. */
export async function writeDocument(report, specs) {
  await mkdir(CHARTS, { recursive: true });
  for (const [name, svg] of Object.entries(chartsOf(report.cases, specs))) {
    await writeFile(new URL(`${name}.svg`, CHARTS), svg);
  }
  const before = existsSync(DOCUMENT)
    ? await readFile(DOCUMENT, 'utf8')
    : `# Performance\n\n${BEGIN}\n${END}\n`;
  const [head, tail] = [before.indexOf(BEGIN), before.indexOf(END)];
  if (head < 0 || tail < head)
    throw new Error(`${DOCUMENT.pathname} must contain ${BEGIN} and, after it, ${END}`);
  const parts = [
    before.slice(0, head),
    BEGIN,
    '',
    ...bodyOf(report, specs),
    '',
    before.slice(tail),
  ];
  const options = await resolveConfig(DOCUMENT);
  await writeFile(DOCUMENT, await format(parts.join('\n'), { ...options, parser: 'markdown' }));
}

function chartsOf(cases, specs) {
  const charts = {};
  for (const [name, [title, pattern]] of Object.entries(BARS)) {
    const groups = specs
      .filter((spec) => pattern.test(spec.name))
      .map((spec) => ({
        title: `${spec.name}: ${spec.title}`,
        bars: Object.fromEntries(
          Object.entries(cases[spec.name])
            .filter(([, row]) => row.opsPerSecond > 0)
            .map(([system, row]) => [system, row.opsPerSecond]),
        ),
      }));
    charts[name] = barChart(`${title}: operations per second`, groups, 'operations per second');
  }
  const lines = Object.fromEntries(
    Object.entries({ waiters: 'n callers on one key', keys: 'at most 64 callers on n keys' }).map(
      ([by, title]) => [title, Object.values(cases[`cost-by-${by}`])[0]?.series ?? []],
    ),
  );
  const points = Object.entries(lines).map(([title, series]) => [
    title,
    series
      .filter(({ opsPerSecond }) => opsPerSecond > 0)
      .map(({ count, opsPerSecond }) => [count, 1e6 / opsPerSecond]),
  ]);
  charts.cost = lineChart(COST, Object.fromEntries(points), {
    x: 'n (callers or keys), logarithmic scale',
    y: 'µs, logarithmic scale',
  });
  return charts;
}

function bodyOf({ cases, ratios, setting, failures }, specs) {
  const { processors, node, loadBefore, loadAfter, forceSync, fsync } = setting;
  const leftOut = Object.entries(setting.leftOut).map(
    ([system, reason]) => `Not installed: ${system} (${reason}).`,
  );
  leftOut.push(...failures.map((failure) => `Failed: ${failure}.`));
  return [
    `${processors}, Node ${node}, one ZooKeeper with \`forceSync=${forceSync}\`, all on loopback. An`,
    `fdatasync took ${number(fsync.p50)} ms (p99 ${number(fsync.p99)} ms), the load of the machine was`,
    `${number(loadBefore)} before and ${number(loadAfter)} after. Medians of ${setting.repetitions} repetitions of`,
    `${setting.seconds} s, in turns; times in milliseconds. ${leftOut.join(' ')}`,
    '',
    ...Object.entries(BARS).flatMap(([name, [title]]) => [
      `![${title}: operations per second of each system](benchmark/${name}.svg)`,
      '',
    ]),
    `![${COST}, by the number of callers and of keys](benchmark/cost.svg)`,
    '',
    '## Ratios',
    '',
    "Operations per second of this library, over each transport, ÷ the peer's.",
    '',
    ...tableOf(
      ['Case', 'Transport', ...PEERS],
      specs.flatMap(({ name }) =>
        Object.entries(ratios)
          .filter(([, of]) => Object.keys(of[name]).length > 0)
          .map(([transport, of]) => [
            `\`${name}\``,
            transport,
            ...PEERS.map((peer) => number(of[name][peer])),
          ]),
      ),
    ),
    ...specs.flatMap((spec) => ['', ...sectionOf(spec, cases[spec.name])]),
  ];
}

function sectionOf({ name, title }, rows) {
  const systems = Object.entries(rows);
  const remarks = systems.flatMap(([system, row]) =>
    remarksOf(row).map((remark) => `- ${system}: ${remark}`),
  );
  const head = [
    'System',
    'Ops/s',
    'Min',
    'Max',
    'p50',
    'p99',
    'p99.9',
    'Longest wait',
    'Prober p50',
    'Prober longest',
  ];
  return [
    `## \`${name}\`: ${title}`,
    '',
    ...tableOf(
      head,
      systems.map(([system, { opsPerSecond, spread, p50, p99, p999, longestWait, prober }]) => {
        const numbers = [opsPerSecond, ...spread, p50, p99, p999, longestWait, prober?.p50];
        return [system, ...[...numbers, prober?.longestWait].map(number)];
      }),
    ),
    '',
    ...remarks,
  ];
}

function tableOf(head, rows) {
  const line = (cells) => `| ${cells.join(' | ')} |`;
  const rule = head.map((_, index) => (index === 0 ? '---' : '---:'));
  return [head, rule, ...rows].map(line);
}
