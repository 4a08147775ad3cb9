const COLUMNS = [
  ['ops/s', 10, ({ opsPerSecond }) => number(opsPerSecond)],
  ['from', 10, ({ spread }) => number(spread[0])],
  ['to', 10, ({ spread }) => number(spread[1])],
  ['p50, ms', 11, ({ p50 }) => number(p50)],
  ['p99, ms', 11, ({ p99 }) => number(p99)],
  ['longest', 10, ({ longestWait }) => number(longestWait)],
  ['prober p50', 12, ({ prober }) => number(prober?.p50)],
  ['longest', 10, ({ prober }) => number(prober?.longestWait)],
];
const WIDTH = 18;

export function printSetting({ processors, node, loadBefore, forceSync, fsync, leftOut, ...rest }) {
  console.log(`${processors}, Node ${node}, load ${loadBefore}.`);
  console.log(
    `ZooKeeper with forceSync=${forceSync}; an fdatasync takes ${fsync.p50} ms (p99 ${fsync.p99} ms). ` +
      `Medians of ${rest.repetitions} × ${rest.seconds} s; waits in ms.`,
  );
  for (const [system, reason] of Object.entries(leftOut)) {
    console.log(`Left out: ${system} (${reason}).`);
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
  const factors = Object.entries(ratios).map(([peer, ratio]) => `${number(ratio)} × ${peer}`);
  if (factors.length > 0) console.log(`ours: ${factors.join(', ')}`);
}

/** What only some rows have, in words. */
export function remarksOf({ shares, bytesPerWaiter, withLock, overhead, series = [] }) {
  const remarks = series.map(
    ({ count, opsPerSecond, p50 }) =>
      `${number(count)}: ${number(opsPerSecond)}/s, ${number(1000 / opsPerSecond)} ms each, p50 ${number(p50)} ms`,
  );
  if (shares) {
    const percent = shares.map((share) => `${(100 * share).toFixed(1)} %`);
    remarks.push(`shares of the processes: ${percent.join(', ')}`);
  }
  if (bytesPerWaiter !== undefined) {
    remarks.push(`${number((10_000 * bytesPerWaiter) / 2 ** 20)} MB for 10,000 waiters`);
  }
  if (overhead !== undefined) {
    remarks.push(
      `${number(1000 * overhead)} µs a call more than the ${number(1000 * withLock)} µs of withLock`,
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
