import type { SeedReport } from './seed-report.js';

/** Sums over the seeds that have run so far. */
export class Figures {
  seeds = 0;
  grants = 0;
  violations = 0;
  /** Virtual milliseconds of all seeds. */
  duration = 0;

  /** @param workers the number of processes that run seeds at the same time */
  constructor(readonly workers: number) {}

  add({ grants, violations, duration }: SeedReport): void {
    this.seeds++;
    this.grants += grants;
    this.violations += violations.length;
    this.duration += duration;
  }

  /** @param seconds the real time since the command started */
  summary(seconds: number) {
    const { seeds, grants, violations, workers } = this;
    return {
      seeds,
      grants,
      violations,
      /** Grants per second of one worker, which uses one core. */
      grantsPerSecond: Math.round(grants / seconds / workers),
      seedsPerHour: Math.round((seeds / seconds) * 3600),
      virtualSeconds: Math.round(this.duration) / 1000,
      seconds: Math.round(seconds * 1000) / 1000,
      workers,
    };
  }
}

export type Summary = ReturnType<Figures['summary']>;

export function summaryText(summary: Summary): string {
  const rows: [string, number][] = [
    ['seeds', summary.seeds],
    ['virtual seconds', Math.round(summary.virtualSeconds)],
    ['grants or operations checked', summary.grants],
    ['violations', summary.violations],
    ['grants per second and core', summary.grantsPerSecond],
    ['seeds per hour', summary.seedsPerHour],
  ];
  return rows
    .map(([name, value]) => `${name.padEnd(28)}${value.toLocaleString('en').padStart(12)}`)
    .join('\n');
}
