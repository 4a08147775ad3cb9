import { foreignText } from '../../client/index.js';
import { ExitCode } from '../exit.js';

/**
 * - `ok`: nothing to change;
 * - `limit`: it works, with a limit;
 * - `unavailable`: the servers lack an operation that only this recipe needs;
 * - `unsafe`: it is unsafe, or does not work.
 */
export type Status = 'ok' | 'limit' | 'unavailable' | 'unsafe';

export type CheckName =
  | 'server'
  | 'quorum'
  | 'kind'
  | 'timeout'
  | 'rights'
  | 'clock'
  | 'ensemble'
  | 'recipe'
  | 'cleanup'
  | 'incomplete';

/** The result of one check. `doctor --json` prints these fields. */
export interface Check {
  readonly check: CheckName;
  /** A server, a znode, a recipe, or the name of the check. */
  readonly subject: string;
  readonly status: Status;
  /** The finding, and what to change. */
  readonly message: string;
}

/** What `doctor --json` prints. */
export interface Report {
  readonly result: keyof typeof RESULTS;
  readonly exitCode: number;
  readonly checks: readonly Check[];
}

const RESULTS = {
  ok: [ExitCode.ok, 'Locks are safe there.'],
  limit: [ExitCode.limits, 'Locks are safe there, with the limits above.'],
  unsafe: [ExitCode.unsafe, 'Not safe, or not usable: see the lines with "unsafe".'],
} as const;

/** The maximum length of a message, in characters. */
const MAX_TEXT = 2000;

/** Returns the report. `unavailable` does not count, because ZooKeeper has no TTLs by default. */
export function reportOf(checks: readonly Check[]): Report {
  const has = (status: Status) => checks.some((check) => check.status === status);
  const result = has('unsafe') ? 'unsafe' : has('limit') ? 'limit' : 'ok';
  return { result, exitCode: RESULTS[result][0], checks };
}

/** Returns the report for people. */
export function showReport({ checks, result }: Report): string {
  const width = Math.max(...checks.map(({ subject }) => subject.length));
  const lines = checks.map(
    ({ subject, status, message }) =>
      `${status.padEnd('unavailable'.length)}  ${foreignText(subject, MAX_TEXT).padEnd(width)}  ${foreignText(message, MAX_TEXT)}`,
  );
  return [...lines, '', RESULTS[result][1]].join('\n');
}
