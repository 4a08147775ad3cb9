import { randomInt } from 'node:crypto';
import { statSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { dirname } from 'node:path';
import { formatOption, number, parseArguments, UsageError, wholeNumber } from '../options.mjs';
import type { EmbeddedServerKind, WorkloadName } from './types.js';

export const USAGE = `npm run simulate -- [options]

Runs the library in virtual time, injects faults and checks the leases that the library grants. The same
seed repeats the same run.

Many seeds:
  --seeds N        number of seeds to run (default 100)
  --from SEED      first seed; the others follow it (default: a random seed)
  --minutes M      run seeds for M minutes, instead of --seeds
  --workers N      number of processes that run seeds (default: the number of cores)

One seed, in the process of the command, so that a debugger can attach:
  --seed S         run one seed and print its digest
  --faults LIST    inject only the faults with these indexes, such as 1,4; an empty list means no faults
  --trace FILE     write a timeline of the run as an HTML page

Mutation testing:
  --mutants [NAME…]  check that the simulation finds these planted bugs (default: all planted bugs)
  --from SEED        first seed for each bug (default 1)
  --minutes M        search for each bug for M minutes (default 2)
  --workers N        as above

Common options:
  --workload NAME  what the processes do: locks (default), partitions, queue, guarded-writes, counter, cache,
                   barrier or cron; not with --mutants
  --server NAME    the server whose behaviour the simulated servers copy: zookeeper (default) or
                   clickhouse-keeper; not with --mutants
  --lib DIR        directory of the build of the library to test (default dist); not with --mutants
  --json           print the figures as one JSON object on the last line
  --help           print this text

The exit code is 0 without a violation, 1 with a violation or a mutant that survives, 2 if the command cannot
run, such as for a wrong option, and 130 after an interrupt.`;

/** The default of the option `--lib`. */
export const DEFAULT_LIB = 'dist';

export const WORKLOADS: readonly WorkloadName[] = [
  'locks',
  'partitions',
  'queue',
  'guarded-writes',
  'counter',
  'cache',
  'barrier',
  'cron',
];

const SERVERS: readonly EmbeddedServerKind[] = ['zookeeper', 'clickhouse-keeper'];

/** The default of the option `--server`. */
export const DEFAULT_SERVER: EmbeddedServerKind = 'zookeeper';

/** The default of the option `--workload`. */
export const DEFAULT_WORKLOAD: WorkloadName = 'locks';

export { UsageError };

/** A command line that has been checked. */
export type Command =
  | { readonly kind: 'help' }
  | ({ readonly kind: 'mutants' } & ManyMutants)
  | ({ readonly kind: 'seed' } & SingleSeed)
  | ({ readonly kind: 'seeds' } & ManySeeds & Workers);

interface Workers {
  readonly workers: number;
  readonly json: boolean;
}

export interface ManyMutants extends Workers {
  /** Empty for all mutants. */
  readonly names: readonly string[];
  /** The first seed for each mutant. */
  readonly from: number;
  /** How long to search for each mutant. */
  readonly minutes: number;
}

export interface SingleSeed {
  readonly seed: number;
  readonly workload: WorkloadName;
  readonly server: EmbeddedServerKind;
  readonly faults: readonly number[] | undefined;
  readonly trace: string | undefined;
  readonly lib: string;
  readonly json: boolean;
}

export interface ManySeeds extends Workers {
  readonly from: number;
  /** The number of seeds; Infinity if `minutes` ends the run. */
  readonly seeds: number;
  /** Undefined if `seeds` ends the run. */
  readonly minutes: number | undefined;
  readonly workload: WorkloadName;
  readonly server: EmbeddedServerKind;
  readonly lib: string;
}

const OPTIONS = {
  seeds: 'value',
  from: 'value',
  minutes: 'value',
  workers: 'value',
  seed: 'value',
  faults: 'value',
  trace: 'value',
  workload: 'value',
  server: 'value',
  lib: 'value',
  mutants: 'flag',
  json: 'flag',
  help: 'flag',
} as const;

type Name = keyof typeof OPTIONS;

export const MAX_SEED = 2 ** 32 - 1;
const MAX_SEEDS = 100_000_000;
const MAX_MINUTES = 7 * 24 * 60;
const MIN_MINUTES = 0.001;
/** The default of `--minutes` with `--mutants`. */
const MUTANT_MINUTES = 2;
const MAX_WORKERS = 256;
const MAX_FAULT = 1_000_000;

/** Options that select a mode of the command, and the options that can be combined with each of them. */
const COMBINABLE: Partial<Record<Name, readonly Name[]>> = {
  mutants: ['from', 'minutes', 'workers', 'json'],
  seed: ['faults', 'trace', 'workload', 'server', 'lib', 'json'],
  minutes: ['from', 'workers', 'workload', 'server', 'lib', 'json', 'mutants'],
};

/**
 * Parses and checks the arguments of the command.
 *
 * @throws UsageError if they are wrong
 */
export function parseCommand(args: readonly string[]): Command {
  const { values, positionals: names } = parseArguments<Name>(args, OPTIONS);
  if (values.has('help')) return { kind: 'help' };
  for (const [name, others] of Object.entries(COMBINABLE)) {
    if (!values.has(name as Name)) continue;
    for (const [other, value] of values) {
      if (other === name || others.includes(other)) continue;
      throw new UsageError(`${formatOption(other, value)} cannot be combined with --${name}`);
    }
  }
  const text = (name: Name) => values.get(name);
  const json = values.has('json');
  const workers = wholeNumber('workers', text('workers') ?? `${coreCount()}`, 1, MAX_WORKERS);
  const limit = text('minutes');
  const minutes =
    limit === undefined ? undefined : number('minutes', limit, MIN_MINUTES, MAX_MINUTES);
  const first = (text: string) => wholeNumber('from', text, 0, MAX_SEED);
  if (values.has('mutants')) {
    const from = first(text('from') ?? '1');
    return { kind: 'mutants', names, from, minutes: minutes ?? MUTANT_MINUTES, workers, json };
  }
  if (names.length > 0) throw new UsageError(`unexpected argument ${names[0]}`);

  const lib = text('lib') ?? DEFAULT_LIB;
  const workload = workloadName(text('workload'));
  const server = serverKind(text('server'));
  const seed = text('seed');
  if (seed !== undefined) {
    return {
      kind: 'seed',
      seed: wholeNumber('seed', seed, 0, MAX_SEED),
      workload,
      server,
      faults: faultList(text('faults')),
      trace: traceFile(text('trace')),
      lib,
      json,
    };
  }
  for (const name of ['faults', 'trace'] as const) {
    if (values.has(name)) throw new UsageError(`${formatOption(name, text(name)!)} needs --seed`);
  }
  const seeds =
    minutes === undefined ? wholeNumber('seeds', text('seeds') ?? '100', 1, MAX_SEEDS) : Infinity;
  const from = first(text('from') ?? `${randomInt(2 ** 31)}`);
  if (minutes === undefined && from + seeds - 1 > MAX_SEED) {
    throw new UsageError(
      `--from ${from} with --seeds ${seeds} exceeds the largest seed, ${MAX_SEED}`,
    );
  }
  return { kind: 'seeds', from, seeds, minutes, workers, workload, server, lib, json };
}

function workloadName(text: string = DEFAULT_WORKLOAD): WorkloadName {
  const name = WORKLOADS.find((each) => each === text);
  if (name) return name;
  throw new UsageError(`--workload must be one of ${WORKLOADS.join(', ')}, but is ${text}`);
}

function serverKind(text: string = DEFAULT_SERVER): EmbeddedServerKind {
  const name = SERVERS.find((each) => each === text);
  if (name) return name;
  throw new UsageError(`--server must be one of ${SERVERS.join(', ')}, but is ${text}`);
}

function faultList(text: string | undefined): number[] | undefined {
  if (text === undefined) return undefined;
  if (text.trim() === '') return [];
  return text.split(',').map((part) => {
    try {
      return wholeNumber('faults', part, 0, MAX_FAULT);
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

function coreCount(): number {
  return Math.min(availableParallelism(), MAX_WORKERS);
}
