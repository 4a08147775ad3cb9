// The command `npm run traces`. Replays runs of the library in the model of the lock. `--help` lists the options.
import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import { SCENARIOS } from '../explore/scenarios.js';
import { stopAtInterrupt } from '../interrupt.js';
import { messageOf } from '../message-of.mjs';
import {
  choiceOption,
  flagOption,
  jsonOption,
  listOption,
  numberOption,
  readOptions,
  UsageError,
  wholeNumberOption,
} from '../options.mjs';
import { buildMutant, checkBuild, Compiler, removeBuild } from '../simulation/mutants/build.js';
import { MUTANTS } from '../simulation/mutants/index.js';
import type { Mutant } from '../simulation/mutants/mutant.js';
import { DEFAULT_LIB, MAX_SEED } from '../simulation/options.js';
import { modelBugs } from './configurations.js';
import { OBSERVED, type Step } from './replay.js';
import { runTraceJobs } from './trace-jobs.js';
import type { TraceJob } from './trace-worker.js';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const REFUSED = 1;
const NOT_RUN = 2;
const INTERRUPTED = 130;
/** Milliseconds that a job may take: a seed takes some seconds on a busy machine, a part of a scenario some minutes. */
const JOB_LIMIT = 900_000;
const MUTANT_JOB_LIMIT = 120_000;
/** The parts of each scenario. */
const PARTS = 8;
/** The refusals that are printed with the steps before them. */
const SHOWN = 3;
const SCENARIOS_OF_MUTEXES = [
  ...['mutex', 'three processes', 'long hold', 'handover', 'strict', 'strict waiters', 'linger'],
  'linger auto',
];

const options = readOptions({
  name: 'traces',
  about: `Replays what the library does in simulated runs in the model of the lock, and prints the first step of a run that the model does
not allow. Prints how often each step of the model happened, too. docs/internals/model.md describes the model.

The exit code is 0 if the model allows all runs, or if it refuses a run of each planted bug; 1 if not; 2 if the command cannot
run, such as for a wrong option; and 130 after an interrupt.`,
  options: {
    seeds: wholeNumberOption('seeds of npm run simulate', 50, { min: 0, max: MAX_SEED }),
    from: wholeNumberOption('the first seed', 1, { min: 0, max: MAX_SEED }),
    scenarios: listOption(
      'scenarios of npm run explore, each under all faults at all moments, separated by commas, or none',
      SCENARIOS_OF_MUTEXES.join(','),
      (option, text) => {
        if (text === 'none' || SCENARIOS_OF_MUTEXES.includes(text)) return text;
        throw new UsageError(`--${option} has no scenario ${text}`);
      },
    ),
    server: choiceOption('the server that the simulated servers copy (default zookeeper)', [
      'zookeeper',
      'clickhouse-keeper',
    ] as const),
    mutants: flagOption(
      'plant each bug of the model into the library instead, until a run of it is refused',
    ),
    bugs: listOption(
      'the planted bugs of --mutants, separated by commas',
      'all',
      (option, text) => {
        if (text === 'all' || modelBugs().some(({ name }) => name === text)) return text;
        throw new UsageError(`--${option} names no bug of the model: ${text}`);
      },
    ),
    minutes: numberOption('minutes for each planted bug', 3, { min: 0.01, max: 600 }),
    workers: wholeNumberOption('number of processes', availableParallelism(), { min: 1, max: 256 }),
    json: jsonOption,
  },
});
const scenarios = options.scenarios.filter((name) => name !== 'none');
const { stop, forget } = stopAtInterrupt();
const started = performance.now();
try {
  process.exitCode = options.mutants ? await replayMutants() : await replayLibrary();
} catch (error) {
  if (!stop.signal.aborted) console.error(messageOf(error));
  process.exitCode = NOT_RUN;
} finally {
  forget();
  if (stop.signal.aborted) process.exitCode = INTERRUPTED;
}

async function replayLibrary(): Promise<number> {
  const { seeds, from, workers, json, server = 'zookeeper' } = options;
  const figures = { seeds: 0, schedules: 0, refused: 0, failed: 0 };
  const counts: Partial<Record<Step, number>> = {};
  await runTraceJobs({
    ...{ lib: DEFAULT_LIB, workers, jobs: jobs(from, seeds, server), limit: JOB_LIMIT },
    signal: stop.signal,
    onResult(job, result) {
      if (typeof result === 'string') {
        figures.failed++;
        console.error(`${nameOf(job)}: ${result}`);
        return false;
      }
      figures['seed' in job ? 'seeds' : 'schedules'] += result.runs;
      for (const [step, count] of Object.entries(result.counts))
        counts[step as Step] = (counts[step as Step] ?? 0) + count;
      for (const { message, before, run } of result.refusals) {
        console.error(`${nameOf(job)}, ${run}: ${message}`);
        if (figures.refused++ < SHOWN)
          console.error(before.map((line) => `    ${line}`).join('\n'));
      }
      return false;
    },
  });
  const never = OBSERVED.filter((step) => !counts[step]);
  const steps = Object.fromEntries(OBSERVED.map((step) => [step, counts[step] ?? 0]));
  if (json) console.log(JSON.stringify({ ...figures, steps, never, seconds: elapsed() }));
  else {
    for (const [step, count] of Object.entries(steps))
      console.log(`${count.toLocaleString('en').padStart(14)}  ${step}`);
    console.log(`never: ${never.join(', ') || 'none'}`);
    console.log(
      `${figures.seeds} seeds and ${figures.schedules} schedules replayed, ${figures.refused} refused; ${elapsed()} s`,
    );
  }
  return figures.refused + figures.failed > 0 ? REFUSED : 0;
}

/** Plants each bug and replays runs until one is refused that is allowed without the bug. */
async function replayMutants(): Promise<number> {
  const { bugs, json } = options;
  const names = new Set(modelBugs().map(({ name }) => name));
  const mutants = MUTANTS.filter(
    ({ name }) => names.has(name) && (bugs.includes('all') || bugs.includes(name)),
  );
  const compiler = new Compiler(ROOT);
  for (const mutant of mutants) checkBuild(ROOT, compiler, mutant);
  const found: string[] = [];
  for (const mutant of mutants) {
    const lib = buildMutant(ROOT, compiler, mutant);
    try {
      const began = performance.now();
      const refusal = await findRefusal(lib, mutant);
      if (stop.signal.aborted) break;
      if (refusal) found.push(mutant.name);
      const seconds = `${((performance.now() - began) / 1000).toFixed(0)} s`;
      if (!json)
        console.log(`${mutant.name.padEnd(36)}${seconds.padStart(6)}  ${refusal ?? 'ALLOWED'}`);
    } finally {
      removeBuild(lib);
    }
  }
  if (json) console.log(JSON.stringify({ mutants: mutants.length, found, seconds: elapsed() }));
  else console.log(`runs of ${found.length} of ${mutants.length} planted bugs are refused`);
  return found.length === mutants.length ? 0 : REFUSED;
}

async function findRefusal(lib: string, mutant: Mutant): Promise<string | undefined> {
  const { from, seeds, minutes, workers } = options;
  const { server = 'zookeeper' } = mutant;
  const over = new AbortController();
  const timer = setTimeout(() => over.abort(), minutes * 60_000);
  const refused: { job: TraceJob; message: string }[] = [];
  await runTraceJobs({
    ...{ lib, workers, jobs: jobs(from, seeds, server), limit: MUTANT_JOB_LIMIT },
    signal: AbortSignal.any([stop.signal, over.signal]),
    onResult(job, result) {
      const [first] = typeof result === 'string' ? [] : result.refusals;
      if (first) refused.push({ job, message: first.message });
      return first !== undefined;
    },
  });
  clearTimeout(timer);
  const [first] = refused;
  if (!first) return undefined;
  let allowed = false;
  await runTraceJobs({
    ...{ lib: DEFAULT_LIB, workers: 1, jobs: [first.job].values(), limit: JOB_LIMIT },
    signal: stop.signal,
    onResult(_, result) {
      return (allowed = typeof result !== 'string' && result.refusals.length === 0);
    },
  });
  return allowed ? `${nameOf(first.job)}: ${first.message}` : undefined;
}

/** Seeds and parts of scenarios in turns, because some planted bugs show only in one of them. */
function* jobs(from: number, seeds: number, server: TraceJob['server']): Generator<TraceJob> {
  const covered = scenarios.filter((name) =>
    (SCENARIOS[name]!.kinds ?? ['zookeeper']).includes(server),
  );
  for (let turn = 0; turn < Math.max(seeds, covered.length * PARTS); turn++) {
    if (turn < seeds) yield { seed: from + turn, server };
    const scenario = covered[turn % covered.length];
    const index = Math.floor(turn / covered.length);
    if (scenario && index < PARTS) yield { scenario, server, shard: { index, count: PARTS } };
  }
}

function nameOf(job: TraceJob): string {
  return 'seed' in job
    ? `seed ${job.seed}`
    : `${job.scenario} (part ${job.shard.index + 1} of ${job.shard.count})`;
}

function elapsed(): number {
  return Number(((performance.now() - started) / 1000).toFixed(1));
}
