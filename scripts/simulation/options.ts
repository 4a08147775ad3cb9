import { randomInt } from 'node:crypto';
import { statSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { dirname } from 'node:path';
import { parseArgs, type ParseArgsConfig } from 'node:util';
import { number, wholeNumber } from '../options.mjs';

export const USAGE = `npm run simulate -- [options]

Runs the library in virtual time, with faults, and checks what its locks did. The same seed repeats the
same run.

Many seeds:
  --seeds N        how many seeds to run, one after the other (default 100)
  --from SEED      the first of them (default: a random one)
  --minutes M      run seeds until M minutes are over, instead of --seeds
  --workers N      how many processes run seeds (default: the number of cores)

One seed, in this process, so that a debugger can attach:
  --seed S         run one seed and print its digest
  --faults LIST    only the faults with these indexes, such as 1,4; an empty list means no faults
  --trace FILE     write a timeline of the run as an HTML page

Planted bugs:
  --mutants [NAME…]  check that the simulation finds these bugs (default: all bugs of the list)

Common options:
  --lib DIR        the build of the library to test (default dist)
  --json           print the figures as one JSON object on the last line
  --help           print this text

The exit code is 0 without a violation, 1 with one, 2 for a wrong option and 130 after an interrupt.`;

/** The build of the library that is tested where no other one is named. */
export const DEFAULT_LIB = 'dist';

/** The command cannot run as it was called. The message is one line that names the option. */
export class UsageError extends Error {}

/** A command line that has been checked. */
export type Command =
  | { readonly kind: 'help' }
  | ({ readonly kind: 'mutants'; readonly names: readonly string[] } & Workers)
  | ({ readonly kind: 'seed' } & SingleSeed)
  | ({ readonly kind: 'seeds' } & ManySeeds & Workers);

interface Workers {
  readonly workers: number;
  readonly json: boolean;
}

export interface SingleSeed {
  readonly seed: number;
  readonly faults: readonly number[] | undefined;
  readonly trace: string | undefined;
  readonly lib: string;
  readonly json: boolean;
}

export interface ManySeeds extends Workers {
  readonly from: number;
  /** Infinity where the time decides. */
  readonly seeds: number;
  /** Undefined where the number of seeds decides. */
  readonly minutes: number | undefined;
  readonly lib: string;
}

const TEXT = { type: 'string' } as const;
const FLAG = { type: 'boolean' } as const;
const OPTIONS = {
  seeds: TEXT,
  from: TEXT,
  minutes: TEXT,
  workers: TEXT,
  seed: TEXT,
  faults: TEXT,
  trace: TEXT,
  lib: TEXT,
  mutants: FLAG,
  json: FLAG,
  help: FLAG,
} as const satisfies ParseArgsConfig['options'];

type Name = keyof typeof OPTIONS;

export const MOST_SEED = 2 ** 32 - 1;
const MOST_SEEDS = 100_000_000;
const MOST_MINUTES = 7 * 24 * 60;
const LEAST_MINUTES = 0.001;
const MOST_WORKERS = 256;
const MOST_FAULT = 1_000_000;

/** Options that select a mode of the command, and the options that each of them can be combined with. */
const COMPANIONS: Partial<Record<Name, readonly Name[]>> = {
  mutants: ['workers', 'json'],
  seed: ['faults', 'trace', 'lib', 'json'],
  minutes: ['from', 'workers', 'lib', 'json'],
};

/** @throws UsageError */
export function parseCommand(args: readonly string[]): Command {
  const { values, names } = parse(args);
  if (values.has('help')) return { kind: 'help' };
  for (const [name, companions] of Object.entries(COMPANIONS)) {
    if (!values.has(name as Name)) continue;
    for (const [other, value] of values) {
      if (other === name || companions.includes(other)) continue;
      throw new UsageError(`${show(other, value)} cannot be combined with --${name}`);
    }
  }
  const text = (name: Name) => values.get(name);
  const json = values.has('json');
  const workers = wholeNumber('workers', text('workers') ?? `${cores()}`, 1, MOST_WORKERS);
  if (values.has('mutants')) return { kind: 'mutants', names, workers, json };
  if (names.length > 0) throw new UsageError(`unexpected argument ${names[0]}`);

  const lib = text('lib') ?? DEFAULT_LIB;
  const seed = text('seed');
  if (seed !== undefined) {
    return {
      kind: 'seed',
      seed: wholeNumber('seed', seed, 0, MOST_SEED),
      faults: faultList(text('faults')),
      trace: traceFile(text('trace')),
      lib,
      json,
    };
  }
  for (const name of ['faults', 'trace'] as const) {
    if (values.has(name)) throw new UsageError(`${show(name, text(name)!)} needs --seed`);
  }
  const limit = text('minutes');
  const minutes =
    limit === undefined ? undefined : number('minutes', limit, LEAST_MINUTES, MOST_MINUTES);
  const seeds =
    minutes === undefined ? wholeNumber('seeds', text('seeds') ?? '100', 1, MOST_SEEDS) : Infinity;
  const first = text('from') ?? `${randomInt(2 ** 31)}`;
  const from = wholeNumber('from', first, 0, MOST_SEED);
  if (minutes === undefined && from + seeds - 1 > MOST_SEED) {
    throw new UsageError(
      `--from ${from} with --seeds ${seeds} exceeds the largest seed, ${MOST_SEED}`,
    );
  }
  return { kind: 'seeds', from, seeds, minutes, workers, lib, json };
}

/** The options that are given, in their order. `parseArgs` is not strict: its own errors have several lines. */
function parse(args: readonly string[]) {
  const { tokens } = parseArgs({ args: [...args], options: OPTIONS, strict: false, tokens: true });
  const values = new Map<Name, string>();
  const names: string[] = [];
  for (const token of tokens) {
    if (token.kind === 'positional') names.push(token.value);
    if (token.kind !== 'option') continue;
    const { name, rawName, value } = token;
    if (!isName(name)) throw new UsageError(`unknown option ${rawName}; --help lists the options`);
    if (values.has(name)) throw new UsageError(`${show(name, value ?? '')} is given a second time`);
    const isFlag = OPTIONS[name].type === 'boolean';
    if (isFlag && value !== undefined)
      throw new UsageError(`--${name} takes no value, but got ${value}`);
    if (!isFlag && value === undefined) throw new UsageError(`--${name} needs a value`);
    values.set(name, value ?? '');
  }
  return { values, names };
}

function isName(name: string): name is Name {
  return Object.hasOwn(OPTIONS, name);
}

function show(name: Name, value: string): string {
  return value === '' ? `--${name}` : `--${name} ${value}`;
}

function faultList(text: string | undefined): number[] | undefined {
  if (text === undefined) return undefined;
  if (text.trim() === '') return [];
  return text.split(',').map((part) => {
    try {
      return wholeNumber('faults', part, 0, MOST_FAULT);
    } catch {
      throw new UsageError(`--faults must be a list of whole numbers such as 1,4, but is ${text}`);
    }
  });
}

function traceFile(file: string | undefined): string | undefined {
  if (file === undefined) return undefined;
  const isDirectory = (path: string) => statSync(path, { throwIfNoEntry: false })?.isDirectory();
  if (file.trim() === '' || isDirectory(file))
    throw new UsageError(`--trace must name a file, but is ${file}`);
  if (!isDirectory(dirname(file)))
    throw new UsageError(`--trace ${file}: its directory does not exist`);
  return file;
}

function cores(): number {
  return Math.min(availableParallelism(), MOST_WORKERS);
}
