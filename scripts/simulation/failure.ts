import { DEFAULT_LIB, DEFAULT_SERVER, DEFAULT_WORKLOAD } from './options.js';
import type { SeedReport } from './seed-report.js';
import type { Shrunk } from './shrink.js';
import type { Fault, EmbeddedServerKind, WorkloadName } from './types.js';

/** The first violation of a seed, with the command that replays it. */
export interface Failure {
  readonly seed: number;
  readonly property: string;
  readonly message: string;
  /** Virtual milliseconds from the start of the run to the violation. */
  readonly at: number;
  readonly faults: readonly Fault[];
  /** The command that replays the run. */
  readonly command: string;
}

/** The run that failed. */
interface FailedRun {
  readonly workload: WorkloadName;
  readonly server: EmbeddedServerKind;
  /** The build of the library that was tested. */
  readonly lib: string;
  /** The faults that reproduce the violation. Default: all faults of the seed. */
  readonly shrunk?: Shrunk | undefined;
}

/** Describes the first violation of a report. */
export function toFailure(
  { seed, ...report }: SeedReport,
  { workload, server, lib, shrunk }: FailedRun,
): Failure {
  const { faults, violation } = shrunk ?? {
    faults: report.faults,
    violation: report.violations[0]!,
  };
  const parts = ['npm run simulate --', `--seed ${seed}`];
  if (workload !== DEFAULT_WORKLOAD) parts.push(`--workload ${workload}`);
  if (server !== DEFAULT_SERVER) parts.push(`--server ${server}`);
  if (shrunk) parts.push(`--faults=${faults.map(({ index }) => index).join(',')}`);
  if (lib !== DEFAULT_LIB) parts.push(`--lib ${quote(lib)}`);
  const { property, message, at } = violation;
  return { seed, property, message, at, faults, command: parts.join(' ') };
}

export function failureText(failure: Failure): string {
  const { seed, property, message, at, faults, command } = failure;
  const lines = [
    `VIOLATION with seed ${seed} after ${formatTime(at)}: ${property}`,
    ...message.split('\n').map((line) => `  ${line}`),
  ];
  lines.push(faults.length > 0 ? '  faults:' : '  no faults');
  for (const fault of faults) lines.push(`    ${faultText(fault)}`);
  lines.push(`  replay: ${command}`);
  return lines.join('\n');
}

export function faultText({ index, kind, target, from, until }: Fault): string {
  const time = until > from ? `${formatTime(from)} to ${formatTime(until)}` : formatTime(from);
  return `${index}: ${kind}, ${target}, ${time}`;
}

function formatTime(time: number): string {
  return `${time.toFixed(3)} ms`;
}

/** Quotes a command-line argument for a shell. */
function quote(text: string): string {
  return /^[\w./@:+-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}
