import { DEFAULT_LIB } from './options.js';
import type { SeedReport } from './seed-report.js';
import type { Shrunk } from './shrink.js';
import type { Fault } from './types.js';

/** A seed that violated a property, and how to repeat it. */
export interface Failure {
  readonly seed: number;
  readonly property: string;
  readonly message: string;
  /** Virtual milliseconds. */
  readonly at: number;
  readonly faults: readonly Fault[];
  /** The command that repeats the run. */
  readonly command: string;
}

/**
 * @param lib the build of the library that was tested
 * @param chosen the faults that repeat the violation; default: all faults of the seed
 */
export function toFailure({ seed, ...report }: SeedReport, lib: string, chosen?: Shrunk): Failure {
  const { faults, violation } = chosen ?? {
    faults: report.faults,
    violation: report.violations[0]!,
  };
  const parts = ['npm run simulate --', `--seed ${seed}`];
  if (chosen) parts.push(`--faults=${faults.map(({ index }) => index).join(',')}`);
  if (lib !== DEFAULT_LIB) parts.push(`--lib ${quote(lib)}`);
  const { property, message, at } = violation;
  return { seed, property, message, at, faults, command: parts.join(' ') };
}

export function failureText(failure: Failure): string {
  const { seed, property, message, at, faults, command } = failure;
  const lines = [
    `VIOLATION with seed ${seed} after ${milliseconds(at)}: ${property}`,
    ...message.split('\n').map((line) => `  ${line}`),
  ];
  lines.push(faults.length > 0 ? '  faults:' : '  no faults');
  for (const fault of faults) lines.push(`    ${faultText(fault)}`);
  lines.push(`  replay: ${command}`);
  return lines.join('\n');
}

export function faultText({ index, kind, target, from, until }: Fault): string {
  const time =
    until > from ? `${milliseconds(from)} to ${milliseconds(until)}` : milliseconds(from);
  return `${index}: ${kind}, ${target}, ${time}`;
}

function milliseconds(time: number): string {
  return `${time.toFixed(3)} ms`;
}

/** For a shell. */
function quote(text: string): string {
  return /^[\w./@:+-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}
