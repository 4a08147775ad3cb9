import { fileURLToPath } from 'node:url';
import { join } from 'node:path';
import { stopAtInterrupt } from '../interrupt.js';
import { buildMutant, checkBuild, Compiler, removeBuild } from './mutants/build.js';
import { MUTANTS } from './mutants/index.js';
import type { Mutant } from './mutants/mutant.js';
import { type Search, searchViolation } from './mutants/search.js';
import { DEFAULT_WORKLOAD, type ManyMutants, UsageError } from './options.js';
import type { SeedReport } from './seed-report.js';
import { SeedWorker } from './seed-worker.js';
import type { RunOptions } from './types.js';

/** The root directory of the project, whether this file runs in scripts/ or in dist-scripts/. */
const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const DIST = join(ROOT, 'dist');

const SURVIVED = 1;
const INTERRUPTED = 130;
/** Milliseconds of real time that one seed may take. With some mutants a run never ends. */
const SEED_LIMIT = 120_000;
/**
 * The number of seeds that the unmodified library may fail. With more failures the results for mutants mean nothing.
 */
const MAX_BASELINE_FAILURES = 3;

/**
 * Plants one bug at a time into a copy of the build, and runs seeds until the simulation finds the bug. Returns the
 * exit code: 0 if every mutant was found.
 *
 * @throws UsageError if a name is unknown, a mutant cannot be planted into the current source, the build is not up to
 *   date, or the unmodified library fails too many seeds
 */
export async function runMutants(options: ManyMutants): Promise<number> {
  const mutants = selectMutants(options.names);
  const compiler = new Compiler(ROOT);
  for (const mutant of mutants) checkBuild(ROOT, compiler, mutant);
  const { stop, forget } = stopAtInterrupt();
  const results: { mutant: Mutant; search: Search }[] = [];
  const baseline = new Baseline();
  const table = new Table(mutants);
  try {
    for (const mutant of mutants) {
      const search = await searchMutant(mutant, compiler, baseline, options, stop.signal);
      if (stop.signal.aborted) return INTERRUPTED;
      results.push({ mutant, search });
      table.add(mutant, search);
    }
  } finally {
    forget();
  }
  const survivors = results.filter(({ search }) => !search.finding);
  table.end(results.map(({ search }) => search));
  for (const { mutant } of survivors) console.log(`SURVIVED ${mutant.name}: ${mutant.bug}`);
  for (const report of baseline.failures) {
    const { property, message } = report.violations[0]!;
    console.log(`The unmodified library fails with seed ${report.seed}: ${property}\n  ${message}`);
  }
  if (options.json) console.log(JSON.stringify({ mutants: results.map(toJson) }));
  return survivors.length > 0 || baseline.failures.length > 0 ? SURVIVED : 0;
}

function selectMutants(names: readonly string[]): readonly Mutant[] {
  if (names.length === 0) return MUTANTS;
  return names.map((name) => {
    const mutant = MUTANTS.find((each) => each.name === name);
    if (mutant) return mutant;
    const known = MUTANTS.map((each) => each.name).join(', ');
    throw new UsageError(`--mutants: there is no mutant ${name}; the mutants are ${known}`);
  });
}

/** Runs seeds with a mutant until one of them, which passes with the unmodified library, finds it. */
export async function searchMutant(
  mutant: Mutant,
  compiler: Compiler,
  baseline: Baseline,
  { workers, from, minutes }: Pick<ManyMutants, 'workers' | 'from' | 'minutes'>,
  signal: AbortSignal,
): Promise<Search> {
  const directory = buildMutant(ROOT, compiler, mutant);
  const { workload = DEFAULT_WORKLOAD, server } = mutant;
  try {
    return await searchViolation({
      run: { workload, server },
      workers,
      from,
      limit: minutes * 60_000,
      signal,
      start: () => new SeedWorker(directory, SEED_LIMIT),
      confirm: async ({ seed }) => {
        const [repeated, passes] = await Promise.all([
          runFresh(directory, { seed, workload, server }, signal),
          baseline.passes({ seed, workload, server }, signal),
        ]);
        return repeated.violations.length > 0 && passes && !signal.aborted;
      },
    });
  } finally {
    removeBuild(directory);
  }
}

/** Runs seeds with the unmodified library, and remembers which of them pass. */
export class Baseline {
  readonly failures: SeedReport[] = [];
  readonly #results = new Map<string, boolean>();

  /** Returns whether a seed passes. */
  async passes(options: RunOptions, signal: AbortSignal): Promise<boolean> {
    const run = `${options.workload} ${options.server} ${options.seed}`;
    const known = this.#results.get(run);
    if (known !== undefined) return known;
    const report = await runFresh(DIST, options, signal);
    if (signal.aborted) return false;
    const passes = report.violations.length === 0;
    this.#results.set(run, passes);
    if (!passes && this.failures.push(report) > MAX_BASELINE_FAILURES) {
      const seeds = this.failures.map((failure) => failure.seed).join(', ');
      throw new UsageError(
        `the unmodified library fails with the seeds ${seeds}; fix the library first`,
      );
    }
    return passes;
  }
}

/** Runs a seed in a new worker process. */
async function runFresh(
  lib: string,
  options: RunOptions,
  signal: AbortSignal,
): Promise<SeedReport> {
  const worker = new SeedWorker(lib, SEED_LIMIT);
  const close = () => void worker.close();
  signal.addEventListener('abort', close);
  try {
    return await worker.run(options);
  } finally {
    signal.removeEventListener('abort', close);
    await worker.close();
  }
}

/** Prints a line for each mutant when its search has ended. */
class Table {
  readonly #width: number;

  constructor(mutants: readonly Mutant[]) {
    this.#width = Math.max(...mutants.map(({ name }) => name.length));
    this.#line('Mutant', 'Seconds', 'Seed', 'Violated property');
  }

  add({ name }: Mutant, { finding, seconds, seeds }: Search): void {
    const seed = finding ? String(finding.seed) : '-';
    const property = finding?.property ?? `none: the mutant survived ${seeds} seeds`;
    this.#line(name, seconds.toFixed(1), seed, property);
  }

  end(searches: readonly Search[]): void {
    const found = searches.filter(({ finding }) => finding).map(({ seconds }) => seconds);
    const times = found.sort((a, b) => a - b);
    const median = times[Math.floor(times.length / 2)];
    const after = median === undefined ? '' : `, half of them within ${median.toFixed(1)} s`;
    console.log(`${found.length} of ${searches.length} mutants found${after}`);
  }

  #line(name: string, seconds: string, seed: string, property: string): void {
    const columns = [name.padEnd(this.#width), seconds.padStart(7), seed.padStart(6), property];
    console.log(columns.join('  '));
  }
}

function toJson({ mutant: { name }, search }: { mutant: Mutant; search: Search }) {
  const { finding, seconds } = search;
  return {
    name,
    found: finding !== undefined,
    seconds: Number(seconds.toFixed(1)),
    seed: finding?.seed ?? null,
    property: finding?.property ?? null,
  };
}
