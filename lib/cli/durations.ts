import { InvalidArgumentError } from 'commander';
import { MAX_TIMER } from '../client/index.js';

const UNITS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 };
const EXAMPLES = 'a duration such as 500ms, 30s, 5m or 1h';

/** Reads a duration with a unit. Returns milliseconds. */
export function readDuration(text: string): number {
  const [, amount, unit] = /^(\d+(?:\.\d+)?)(ms|s|m|h)$/.exec(text) ?? [];
  const milliseconds = text === '0' ? 0 : Number(amount) * (UNITS[unit!] ?? NaN);
  if (!(milliseconds <= MAX_TIMER)) {
    throw new InvalidArgumentError(`It must be ${EXAMPLES}, of at most 24 days.`);
  }
  return milliseconds;
}

/** As {@link readDuration}, but not 0. */
export function readPositiveDuration(text: string): number {
  const milliseconds = readDuration(text);
  if (milliseconds === 0) throw new InvalidArgumentError('It must be longer than 0.');
  return milliseconds;
}

/** Returns a duration for people: two units at most. */
export function showDuration(milliseconds: number): string {
  const seconds = Math.max(0, Math.floor(milliseconds / 1000));
  const [days, hours, minutes] = [86_400, 3_600, 60].map((unit) => Math.floor(seconds / unit));
  if (days! > 0) return `${days}d${hours! % 24}h`;
  if (hours! > 0) return `${hours}h${minutes! % 60}m`;
  if (minutes! > 0) return `${minutes}m${seconds % 60}s`;
  return `${seconds}s`;
}
