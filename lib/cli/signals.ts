import { constants } from 'node:os';
import { ExitCode } from './exit-codes.js';

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
