import { QUICKLY } from './cases.mjs';

/** @type {[title: string, width: number, cell: (row: object) => string][]} */
const COLUMNS = [
  ['Ops/s', 10, ({ opsPerSecond }) => number(opsPerSecond)],
  ['Min', 10, ({ spread }) => number(spread[0])],
  ['Max', 10, ({ spread }) => number(spread[1])],
  ['p50, ms', 11, ({ p50 }) => number(p50)],
  ['p99, ms', 11, ({ p99 }) => number(p99)],
  ['p99.9', 9, ({ p999 }) => number(p999)],
  ['Longest', 10, ({ longestWait }) => number(longestWait)],
  ['Prober p50', 12, ({ prober }) => number(prober?.p50)],
  ['Longest', 10, ({ prober }) => number(prober?.longestWait)],
];
const WIDTH = 18;

export function printSetting({ processors, node, loadBefore, forceSync, fsync, ...rest }) {
  console.log(`${processors}, Node ${node}, load ${loadBefore}.`);
  const servers = rest.servers === 1 ? 'One ZooKeeper' : `${rest.servers} ZooKeepers`;
  console.log(
    `${servers} with forceSync=${forceSync}; an fdatasync takes ${fsync.p50} ms (p99 ${fsync.p99} ms). ` +
      `Medians of ${rest.repetitions} × ${rest.seconds} s; waits in ms.`,
  );
  if (rest.quick) console.log(`Quick: ${QUICKLY}. The figures show only that each row works.`);
}

export function printLeftOut(leftOut) {
  for (const [system, reason] of Object.entries(leftOut)) {
    console.log(`\nNot installed: ${system} (${reason}).`);
  }
}

export function printCase({ name, title }, rows, ratios) {
  console.log(`\n${name}: ${title}`);
  line(
    '',
    COLUMNS.map(([title]) => title),
  );
  for (const [system, row] of Object.entries(rows)) {
    line(
      system,
      COLUMNS.map(([, , cell]) => cell(row)),
    );
    for (const remark of remarksOf(row)) console.log(`${''.padEnd(WIDTH)}  ${remark}`);
  }
  for (const [transport, of] of Object.entries(ratios)) {
    const factors = Object.entries(of[name]).map(([peer, ratio]) => `${number(ratio)} × ${peer}`);
    if (factors.length > 0) console.log(`ours (${transport}): ${factors.join(', ')}`);
  }
}

/** Describes the results that only some rows have. */
export function remarksOf(row) {
  const { shares, bytesPerWaiter, withLock, overhead, initialize, cpu, series = [] } = row;
  const remarks = series.map(
    ({ count, opsPerSecond, p50 }) =>
      `${number(count)}: ${number(opsPerSecond)}/s, ${number(1000 / opsPerSecond)} ms each, p50 ${number(p50)} ms`,
  );
  if (shares) {
    const percent = shares.map((share) => `${(100 * share).toFixed(1)} %`);
    remarks.push(`share of each process: ${percent.join(', ')}`);
  }
  if (cpu !== undefined) remarks.push(`${number(cpu)} µs of processor time for a cycle`);
  if (bytesPerWaiter !== undefined) {
    remarks.push(`${number((10_000 * bytesPerWaiter) / 2 ** 20)} MB for 10,000 waiters`);
  }
  if (initialize !== undefined)
    remarks.push(`${number(initialize)} ms until the first copy is complete`);
  if (overhead !== undefined) {
    remarks.push(
      `${number(1000 * overhead)} µs a call more than withLock, which takes ${number(1000 * withLock)} µs`,
    );
  }
  return remarks;
}

export function number(value) {
  if (value === undefined || value === null) return '-';
  if (Math.abs(value) >= 100) return Math.round(value).toLocaleString('en');
  return String(Number(value.toPrecision(3)));
}

function line(first, cells) {
  console.log(first.padEnd(WIDTH) + cells.map((cell, i) => cell.padStart(COLUMNS[i][1])).join(''));
}
