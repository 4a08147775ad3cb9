import type { Command } from 'commander';
import { addConnectionOptions, clientOptionsOf, type ConnectionOptions } from './connection.js';
import { examine } from './doctor/examine.js';
import { showReport } from './doctor/report.js';
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
  const report = await examine(options, interrupted.signal);
  const text = json ? toJson(report) : showReport(report);
  process.stdout.write(`${text}\n`);
  process.exitCode = report.exitCode;
}
