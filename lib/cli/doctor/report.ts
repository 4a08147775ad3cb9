import { styleText } from 'node:util';
import { foreignText } from '../../client/errors.js';
import { ExitCode } from '../exit-codes.js';

/**
 * - `ok`: nothing to change;
 * - `limit`: it works, with a limit;
 * - `unsafe`: locks would not be safe, or nothing works;
 * - `unavailable`: a recipe or an operation that rejects there;
 * - `unknown`: it could not be found out.
 */
export type Status = 'ok' | 'limit' | 'unsafe' | 'unavailable' | 'unknown';

/** The names of the checks. */
export type CheckName =
  | 'server'
  | 'version'
  | 'quorum'
  | 'clock'
  | 'rights'
  | 'tokens'
  | 'operation'
  | 'session'
  | 'recipe'
  | 'probe';

/** The maximum length of a finding or an advice, in characters. */
const MAX_TEXT = 2000;

/** The advice if a check ended early. */
export const RUN_AGAIN = 'run the command again';

/** The result of one check. `doctor --json` prints these fields. */
export interface Check {
  readonly check: CheckName;
  /** What was checked, such as a server, an operation or a recipe. */
  readonly subject: string;
  readonly status: Status;
  readonly found: string;
  /** What to change. */
  readonly advice?: string | undefined;
  /** The figures behind `found`. */
  readonly data?: Readonly<Record<string, unknown>>;
}

/** What `doctor --json` prints. */
export interface Report {
  readonly result: 'ok' | 'limit' | 'unsafe';
  readonly exitCode: number;
  /** The hosts of the connect string. */
  readonly zookeeper: string;
  readonly namespace: string;
  /** What the servers are; null if no server can be used. */
  readonly server: string | null;
  readonly checks: readonly Check[];
}

const EXIT_CODES = {
  ok: ExitCode.ok,
  limit: ExitCode.limits,
  unsafe: ExitCode.unsafe,
} as const;

/**
 * Returns the report. Its result is the worst status. `unavailable` does not count, because ZooKeeper has no TTLs by default,
 * nor does an unknown version.
 */
export function reportOf(
  about: Pick<Report, 'zookeeper' | 'namespace' | 'server'>,
  checks: readonly Check[],
): Report {
  const isBad = ({ check, status }: Check) =>
    status === 'limit' || (status === 'unknown' && check !== 'version');
  const isUnsafe = checks.some(({ status }) => status === 'unsafe');
  const result = isUnsafe ? 'unsafe' : checks.some(isBad) ? 'limit' : 'ok';
  return { result, exitCode: EXIT_CODES[result], ...about, checks };
}

const HEADINGS: Readonly<Partial<Record<CheckName, string>>> = {
  server: 'Servers',
  clock: 'Clocks',
  rights: 'Namespace',
  tokens: 'Behaviour',
  operation: 'Behaviour',
  recipe: 'Recipes',
};

const SUMMARIES = {
  ok: 'All checks passed: locks are safe there.',
  limit: 'Locks are safe there, with the limits above.',
  unsafe: 'Not safe, or not usable: see the lines with "unsafe".',
  unknown: 'Not everything could be checked: see the lines with "unknown".',
} as const;

const STYLES = {
  ok: 'green',
  limit: 'yellow',
  unsafe: 'red',
  unavailable: 'yellow',
  unknown: 'yellow',
} as const satisfies Record<Status, Parameters<typeof styleText>[0]>;

/** Returns the report as lines for people. Colours only if the standard output is a terminal that has them. */
export function showReport({ checks, result }: Report): string[] {
  const [statusWidth, subjectWidth] = (['status', 'subject'] as const).map((column) =>
    Math.max(...checks.map((check) => check[column].length)),
  ) as [number, number];
  const indent = ' '.repeat(statusWidth + subjectWidth + 6);
  const lines: string[] = [];
  let heading: string | undefined;
  for (const [index, { check, subject, status, found, advice }] of checks.entries()) {
    const group = HEADINGS[check];
    if (group && group !== heading) {
      if (heading) lines.push('');
      heading = group;
      lines.push(styled('bold', heading));
    }
    const start = `  ${styled(STYLES[status], status.padEnd(statusWidth))}  ${subject.padEnd(subjectWidth)}`;
    lines.push(`${start}  ${foreignText(found, MAX_TEXT)}`);
    const next = checks[index + 1];
    // Checks in succession share the same advice.
    if (advice && !(next?.check === check && next.advice === advice))
      lines.push(`${indent}→ ${foreignText(advice, MAX_TEXT)}`);
  }
  const isUnknown = checks.some(({ check, status }) => check === 'recipe' && status === 'unknown');
  const summary = SUMMARIES[result === 'limit' && isUnknown ? 'unknown' : result];
  return [...lines, '', styled(STYLES[result], summary)];
}

function styled(style: Parameters<typeof styleText>[0], text: string): string {
  return styleText(style, text);
}

/** Returns milliseconds for people. */
export function showMilliseconds(milliseconds: number): string {
  if (milliseconds >= 1000) return `${Number((milliseconds / 1000).toFixed(1))} s`;
  return `${Number(milliseconds.toFixed(milliseconds < 10 ? 1 : 0))} ms`;
}

/** Returns `1 server`, `2 servers`. */
export function count(number: number, noun: string): string {
  return `${number} ${noun}${number === 1 ? '' : 's'}`;
}
