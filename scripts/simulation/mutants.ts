import { fileURLToPath } from 'node:url';
import { join } from 'node:path';
import { stopAtInterrupt } from '../interrupt.mjs';
import { buildMutant, checkBuild, Compiler, removeBuild } from './mutants/build.js';
import { MUTANTS } from './mutants/index.js';
import type { Mutant } from './mutants/mutant.js';
import { type Search, searchViolation } from './mutants/search.js';
import { UsageError } from './options.js';
import type { SeedReport } from './seed-report.js';
import { SeedWorker } from './seed-worker.js';

export { MUTANTS };

export interface MutantsOptions {
  /** Prints one JSON object as the last line. */
  readonly json: boolean;
  /** Processes that run seeds at the same time. */
  readonly workers: number;
  /** Default, also of an empty list: all mutants. */
  readonly names?: readonly string[];
  /** The first seed for each mutant. Default 1. */
  readonly from?: number;
  /** Milliseconds of real time to search for each mutant. Default 120,000. */
  readonly limit?: number;
}

/** The directory of the project, from this file's place in scripts/ and in dist-scripts/ alike. */
const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const DIST = join(ROOT, 'dist');

const SURVIVED = 1;
const INTERRUPTED = 130;
/** Milliseconds that a search for one mutant takes at most. */
const SEARCH_LIMIT = 120_000;
/** Milliseconds of real time that one seed may take: some mutants never end. */
const SEED_LIMIT = 30_000;
/** Seeds that the unmodified library may fail; with more of them nothing can be said of a mutant. */
const MOST_FAILURES = 3;

/**
 * Plants one bug after the other into a copy of the build, and runs seeds until the simulation finds it.
 * Returns the exit code: 0 where every mutant was found.
 *
 * @throws UsageError where a name is unknown, a mutant does not fit the present source, the build is not the one of that
 *   source, or the unmodified library fails
 */
export async function runMutants(options: MutantsOptions): Promise<number> {
  const mutants = mutantsOf(options.names ?? []);
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

function mutantsOf(names: readonly string[]): readonly Mutant[] {
  if (names.length === 0) return MUTANTS;
  return names.map((name) => {
    const mutant = MUTANTS.find((each) => each.name === name);
    if (mutant) return mutant;
    const known = MUTANTS.map((each) => each.name).join(', ');
    throw new UsageError(`--mutants: there is no mutant ${name}; the mutants are ${known}`);
  });
}

async function searchMutant(
  mutant: Mutant,
  compiler: Compiler,
  baseline: Baseline,
  { workers, from = 1, limit = SEARCH_LIMIT }: MutantsOptions,
  signal: AbortSignal,
): Promise<Search> {
  const directory = buildMutant(ROOT, compiler, mutant);
  try {
    return await searchViolation({
      workers,
      from,
      limit,
      signal,
      start: () => new SeedWorker(directory, SEED_LIMIT),
      confirm: async ({ seed }) => {
        const [again, passes] = await Promise.all([
          runFresh(directory, seed, signal),
          baseline.passes(seed, signal),
        ]);
        return again.violations.length > 0 && passes && !signal.aborted;
      },
    });
  } finally {
    removeBuild(directory);
  }
}

/** Which seeds the unmodified library passes. */
class Baseline {
  readonly failures: SeedReport[] = [];
  readonly #passed = new Map<number, boolean>();

  async passes(seed: number, signal: AbortSignal): Promise<boolean> {
    const known = this.#passed.get(seed);
    if (known !== undefined) return known;
    const report = await runFresh(DIST, seed, signal);
    if (signal.aborted) return false;
    const passes = report.violations.length === 0;
    this.#passed.set(seed, passes);
    if (!passes && this.failures.push(report) > MOST_FAILURES) {
      const seeds = this.failures.map((failure) => failure.seed).join(', ');
      throw new UsageError(`the unmodified library fails with the seeds ${seeds}; mend that first`);
    }
    return passes;
  }
}

/** Runs a seed in a process of its own. */
async function runFresh(lib: string, seed: number, signal: AbortSignal): Promise<SeedReport> {
  const worker = new SeedWorker(lib, SEED_LIMIT);
  const close = () => void worker.close();
  signal.addEventListener('abort', close);
  try {
    return await worker.run({ seed });
  } finally {
    signal.removeEventListener('abort', close);
    await worker.close();
  }
}

/** Prints a line for each mutant as soon as it is known. */
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
