import { constants } from 'node:os';
import { foreignText } from '../client/index.js';

/** Exit codes of the command line. `run` and `elect` otherwise exit with the code of their command. */
export const ExitCode = {
  ok: 0,
  failed: 1,
  /** The command line is invalid. */
  usage: 2,
  /** `doctor`: the ensemble works with limits. */
  limits: 1,
  /** `doctor`: the ensemble is unsafe, or does not work. */
  unsafe: 2,
  /** The ensemble is not reachable. */
  noConnection: 120,
  /** The lock is held, and `--wait` is 0. */
  busy: 121,
  /** The lock was not granted within `--wait`. */
  timedOut: 122,
  /** The lock was lost while the command ran, or was held for `--hold-at-most`. */
  lost: 123,
  /** The command cannot be executed. */
  notExecutable: 126,
  notFound: 127,
  /** 128 plus the number of the signal that ended the command. */
  signal: 128,
} as const;

/** An expected error. It is printed without a stack trace. */
export class Failure extends Error {
  constructor(
    message: string,
    readonly exitCode: number = ExitCode.failed,
  ) {
    // It may contain paths and names that other clients wrote.
    super(foreignText(message, Infinity));
  }
}

/** The command line is invalid, or a file that it names is not readable. */
export class UsageError extends Failure {
  constructor(message: string) {
    super(message, ExitCode.usage);
  }
}

const STOP_SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/** Calls `stop` with the number of the first signal that asks this process to end. A further one ends it at once. */
export function onStopSignal(stop: (number: number) => void): void {
  let isStopping = false;
  for (const signal of STOP_SIGNALS) {
    process.on(signal, () => {
      if (isStopping) process.exit(ExitCode.signal + constants.signals[signal]);
      isStopping = true;
      stop(constants.signals[signal]);
    });
  }
}
