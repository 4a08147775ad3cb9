// The command `npm run mutation`. Changes the library in one small place at a time, and counts which of the changes the
// project's own commands find. `--help` lists the options.
import { readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import { Random, shuffled } from '../chaos/random.js';
import { stopAtInterrupt } from '../interrupt.js';
import {
  flagOption,
  jsonOption,
  listOption,
  numberOption,
  readOptions,
  UsageError,
  wholeNumberOption,
} from '../options.mjs';
import { isEquivalent } from './equivalent.js';
import { type Mutation, mutationsOf } from './operators.js';
import { trackedFiles } from './tracked-files.js';
import { type Finder, MutationSearch } from './search.js';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
/** The recipes, the kernel, and the files of the client that keep a rule of CONTRIBUTING.md. */
const DEFAULT_FILES = [
  'lib/recipes',
  'lib/kernel',
  'lib/client/*session*.ts',
  'lib/client/watch-registry.ts',
  'lib/client/transport/wire-queue.ts',
  'lib/client/transport/wire-requests.ts',
].join(',');
const SURVIVED = 1;
const INTERRUPTED = 130;

const options = readOptions({
  name: 'mutation',
  about: `Changes the library in one small place at a time, as StrykerJS does, and counts which changes are found: first by the
tests of npm test that run the source, then by npm run explore, then by npm run simulate within two minutes. The mutation score is
the share of the changes that one of them finds, without those that are known to be equivalent.

The exit code is 0 if all changes are found, 1 if one survives, and 2 for a wrong option.`,
  options: {
    files: listOption('files, folders or patterns', DEFAULT_FILES, (option, text) => {
      if (sourcesIn(text).length > 0) return text;
      throw new UsageError(`--${option} matches no TypeScript file: ${text}`);
    }),
    sample: wholeNumberOption('draw so many changes at random', undefined, {
      min: 1,
      max: 100_000,
    }),
    seed: wholeNumberOption('seed of the draw', 1, { min: 0, max: 2 ** 32 - 1 }),
    minutes: numberOption('minutes after which no further change is made', 600, {
      min: 0.01,
      max: 6000,
    }),
    workers: wholeNumberOption('number of processes', availableParallelism(), { min: 1, max: 256 }),
    list: flagOption('only list the changes'),
    json: jsonOption,
  },
});

type Outcome = Finder | 'equivalent' | 'survived';

process.exitCode = await run();

async function run(): Promise<number> {
  const changes = draw(sourcesIn(...options.files).flatMap(mutationsOfFile));
  if (options.list) {
    for (const change of changes) console.log(describe(change));
    return 0;
  }
  const { stop, forget } = stopAtInterrupt();
  const search = new MutationSearch(ROOT, options.workers, stop.signal);
  const outcomes: Outcome[] = [];
  try {
    await search.checkUnmodified();
    for (const change of changes) {
      if (performance.now() > options.minutes * 60_000) break;
      const started = performance.now();
      const outcome = isEquivalent(change)
        ? 'equivalent'
        : ((await search.find(change)) ?? 'survived');
      if (stop.signal.aborted) return INTERRUPTED;
      outcomes.push(outcome);
      const seconds = ((performance.now() - started) / 1000).toFixed(0).padStart(5);
      console.log(`${outcome.padEnd(11)}${seconds} s  ${describe(change)}`);
    }
  } finally {
    search.end();
    forget();
  }
  summarize(outcomes, changes.length);
  return outcomes.includes('survived') ? SURVIVED : 0;
}

function sourcesIn(...patterns: readonly string[]): string[] {
  return trackedFiles(ROOT, ...patterns).filter((file) => file.endsWith('.ts'));
}

function mutationsOfFile(file: string): Mutation[] {
  return mutationsOf(file, readFileSync(ROOT + file, 'utf8'));
}

/** Returns a random sample in random order, which depends on `--seed` only; all changes in order without `--sample`. */
function draw(all: Mutation[]): Mutation[] {
  if (options.sample === undefined) return all;
  const draws = shuffled(all, new Random(options.seed));
  return Array.from({ length: Math.min(options.sample, all.length) }, () => draws.next().value);
}

function describe({ file, line, operator, before, after }: Mutation): string {
  const short = (code: string) => code.replace(/\s+/g, ' ').slice(0, 70);
  return `${file}:${line} ${operator}: ${short(before)} → ${short(after)}`;
}

function summarize(outcomes: readonly Outcome[], drawn: number): void {
  const count = (outcome: Outcome) => outcomes.filter((each) => each === outcome).length;
  const [tests, explore, seeds] = [count('tests'), count('explore'), count('seeds')];
  const [equivalent, survived] = [count('equivalent'), count('survived')];
  const found = tests + explore + seeds;
  const score = found + survived === 0 ? null : (100 * found) / (found + survived);
  if (options.json) {
    const figures = { drawn, made: outcomes.length, tests, explore, seeds, equivalent, survived };
    return console.log(JSON.stringify({ ...figures, score }));
  }
  console.log(
    `${outcomes.length} of ${drawn} changes made: ${tests} found by tests, ${explore} by exploring, ${seeds} by seeds, ${survived} survived, ${equivalent} equivalent; mutation score ${score?.toFixed(1) ?? '-'} %`,
  );
}
