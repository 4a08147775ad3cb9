import type { Command } from 'commander';
import { foreignText } from '../client/index.js';
import { addConnectionOptions, clientOptionsOf, type ConnectionOptions } from './connection.js';
import { examine } from './doctor/examine.js';
import type { Check, Status } from './doctor/servers.js';
import { readPositiveDuration } from './durations.js';
import { ExitCode, Failure, onStopSignal } from './exit.js';
import { toJson } from './output.js';

interface DoctorOptions extends ConnectionOptions {
  readonly sessionTimeout?: number;
  readonly json?: boolean;
}

/** Adds `doctor`. */
export function addDoctorCommand(program: Command): void {
  const doctor = program
    .command('doctor')
    .summary('check whether locks are safe on an ensemble')
    .description(
      'Probes each server of --zookeeper, and tries each recipe once. It creates znodes in the namespace, and deletes them. Exit code 0: all safe; 1: works with limits; 2: unsafe, or does not work.',
    )
    .option(
      '--session-timeout <duration>',
      'the session timeout of the application (default: 30s)',
      readPositiveDuration,
    )
    .option('--json', 'print the report as one JSON object')
    .action(runDoctor);
  addConnectionOptions(doctor);
}

async function runDoctor({ json, sessionTimeout, ...connection }: DoctorOptions): Promise<void> {
  const options = clientOptionsOf(connection, { sessionTimeout });
  const interrupted = new AbortController();
  onStopSignal((signalNumber) => {
    interrupted.abort(new Failure('interrupted', ExitCode.signal + signalNumber));
  });
  const report = reportOf(await examine(options, interrupted.signal));
  const text = json ? toJson(report) : showReport(report);
  process.stdout.write(`${text}\n`);
  process.exitCode = report.exitCode;
}

/** What `doctor --json` prints. */
export interface Report {
  readonly result: keyof typeof RESULTS;
  readonly exitCode: number;
  readonly checks: readonly Check[];
}

const RESULTS = {
  ok: [ExitCode.ok, 'Locks are safe there.'],
  limit: [ExitCode.limits, 'Locks work there, with the limits above.'],
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
