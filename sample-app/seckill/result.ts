import type { LoadFigures } from './load.js';

export interface RunResult extends LoadFigures {
  /** Rows in the orders table. */
  orders: number;
  stockLeft: number;
  /** Orders that exceed the number of items. */
  oversold: number;
}

export interface SeckillResult {
  unlocked: RunResult;
  locked: RunResult;
}

export function runResult(
  load: LoadFigures,
  { orders, stock, items }: { orders: number; stock: number; items: number },
): RunResult {
  const { requests, errors, throughput, p50, p99 } = load;
  const oversold = Math.max(0, orders - items);
  return { requests, orders, stockLeft: stock, oversold, errors, throughput, p50, p99 };
}

export function soldExactly({ orders, stockLeft }: RunResult, items: number): boolean {
  return orders === items && stockLeft === 0;
}

const COLUMNS: [heading: string, cell: (run: RunResult) => string][] = [
  ['requests', (run) => count(run.requests)],
  ['orders', (run) => count(run.orders)],
  ['stock left', (run) => count(run.stockLeft)],
  ['oversold', (run) => count(run.oversold)],
  ['throughput', (run) => `${count(run.throughput)}/s`],
  ['p50', (run) => `${count(run.p50)} ms`],
  ['p99', (run) => `${count(run.p99)} ms`],
  ['errors', (run) => count(run.errors)],
];

export function table(result: SeckillResult): string {
  const rows = [
    ['', ...COLUMNS.map(([heading]) => heading)],
    ...Object.entries(result).map(([name, run]) => [name, ...COLUMNS.map(([, cell]) => cell(run))]),
  ];
  const widths = rows[0].map((_, column) => Math.max(...rows.map((row) => row[column].length)));
  return rows
    .map(([name, ...cells]) =>
      [name.padEnd(widths[0]), ...cells.map((cell, i) => cell.padStart(widths[i + 1]))].join('  '),
    )
    .join('\n');
}

export function outcome({ unlocked, locked }: SeckillResult, items: number): string {
  const without =
    unlocked.oversold > 0
      ? `Without a lock the shop took ${count(unlocked.orders)} orders for ${count(items)} items: ${count(unlocked.oversold)} too many.`
      : `Without a lock the shop took ${count(unlocked.orders)} orders for ${count(items)} items and has ${count(unlocked.stockLeft)} left; with a longer --delay or more --buyers it oversells.`;
  const withLock = soldExactly(locked, items)
    ? `With @DistributedLock it sold exactly ${count(items)}.`
    : `With @DistributedLock it took ${count(locked.orders)} orders and kept ${count(locked.stockLeft)} in stock, which is NOT exactly ${count(items)} (${count(locked.errors)} errors).`;
  return `${without} ${withLock}`;
}

const count = (value: number) => value.toLocaleString('en');
