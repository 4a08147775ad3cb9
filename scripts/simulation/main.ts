// The command `npm run simulate`. Runs the library in virtual time, injects faults and checks the leases that the
// library grants. For a failure it prints the seed and the faults that reproduce it. `--help` lists the options.
import { stopAtInterrupt } from '../interrupt.js';
import { faultText, toFailure } from './failure.js';
import { Figures } from './figures.js';
import { checkLibrary } from './library.js';
import {
  type Command,
  DEFAULT_SERVER,
  type ManySeeds,
  MAX_SEED,
  parseCommand,
  type SingleSeed,
  USAGE,
  UsageError,
} from './options.js';
import { Output } from './output.js';
import { runSeeds } from './run-seeds.js';
import { SeedWorker } from './seed-worker.js';
import type { EmbeddedServerKind } from './types.js';

const PASSED = 0;
const VIOLATED = 1;
const NOT_RUN = 2;
const INTERRUPTED = 130;

let outputClosed = false;
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error;
  // The reader of the output has ended, such as `head`. A command with workers cleans up as after an interrupt.
  if (outputClosed) return;
  outputClosed = true;
  if (!process.emit('SIGTERM', 'SIGTERM')) process.exit(INTERRUPTED);
});

const command = readCommand();
try {
  process.exitCode = await run(command);
} catch (error) {
  console.error(error instanceof UsageError ? error.message : error);
  process.exitCode = NOT_RUN;
}

function readCommand(): Command {
  try {
    const parsed = parseCommand(process.argv.slice(2));
    if ('lib' in parsed) checkLibrary(parsed.lib);
    return parsed;
  } catch (error) {
    console.error((error as Error).message);
    process.exit(NOT_RUN);
  }
}

/** Runs the command and returns the exit code. Loads the modules of a mode only if the command uses it. */
async function run(command: Command): Promise<number> {
  switch (command.kind) {
    case 'help':
      console.log(USAGE);
      return PASSED;
    case 'mutants': {
      const { runMutants } = await import('./mutants.js');
      return runMutants(command);
    }
    case 'seed':
      return singleSeed(command);
    case 'seeds':
      return manySeeds(command);
  }
}

async function singleSeed(options: SingleSeed): Promise<number> {
  const output = new Output(options.json);
  const { runSingleSeed } = await import('./single-seed.js');
  const report = await runSingleSeed(options);
  const { workload, server, lib } = options;
  const { seed, digest, events, faults, violations } = report;
  output.text(`seed ${seed}, digest ${digest}, ${events} events, ${faults.length} faults`);
  const figures = new Figures(1);
  figures.add(report);
  const [violation] = violations;
  if (!violation) {
    for (const fault of faults) output.text(`  ${faultText(fault)}`);
  } else {
    const shrunk = options.faults && { faults, violation };
    output.failure(toFailure(report, { workload, server, lib, shrunk }));
  }
  if (violation && !options.faults && faults.length > 0) {
    output.text(
      `  to search for a smaller set of faults: npm run simulate -- --from ${seed} --seeds 1 --workload ${workload}${suffix(' --server ', server)}`,
    );
  }
  output.summary(figures, { seed, server, digest });
  return violation ? VIOLATED : PASSED;
}

async function manySeeds({
  from,
  seeds,
  minutes,
  workload,
  server,
  lib,
  ...options
}: ManySeeds): Promise<number> {
  const output = new Output(options.json);
  const figures = new Figures(Math.min(options.workers, seeds));
  output.text(`from seed ${from}, workers: ${figures.workers}${suffix(', server: ', server)}`);
  const { stop, forget } = stopAtInterrupt();
  await runSeeds({
    seeds: seedsFrom(from, seeds, minutes),
    runners: Array.from({ length: figures.workers }, () => new SeedWorker(lib)),
    figures,
    workload,
    server,
    lib,
    signal: stop.signal,
    onSeed: () => output.progress(figures),
    onFailure: (failure) => output.failure(failure),
  });
  forget();
  const interrupted = stop.signal.aborted;
  output.summary(figures, { from, server, interrupted });
  if (interrupted) {
    if (!outputClosed) console.error('interrupted');
    return INTERRUPTED;
  }
  return figures.violations > 0 ? VIOLATED : PASSED;
}

/** Returns the name of the server after a text, or nothing for the default one. */
function suffix(text: string, server: EmbeddedServerKind): string {
  return server === DEFAULT_SERVER ? '' : `${text}${server}`;
}

function* seedsFrom(from: number, count: number, minutes = Infinity): Generator<number> {
  const last = Math.min(from + count - 1, MAX_SEED);
  // performance.now() counts from the start of this process.
  for (let seed = from; seed <= last && performance.now() < minutes * 60_000; seed++) yield seed;
}
