// The command `npm run explore`. Runs small scenarios of the library under every fault at every moment. `--help` lists the
// options and the scenarios.
import { stopAtInterrupt } from '../interrupt.js';
import { messageOf } from '../message-of.mjs';
import { loadLibrary } from '../simulation/library.js';
import { DEFAULT_LIB } from '../simulation/options.js';
import type { EmbeddedServerKind } from '../simulation/types.js';
import { exploreScenario } from './explore-scenario.js';
import { runMutants } from './mutants.js';
import { readExploreOptions } from './options.js';
import { exploreParts, partsOf } from './parts.js';
import { SCENARIOS } from './scenarios.js';
import { sideBySide } from './trace.js';
import type { Part, PartResult } from './worker.js';

type FaultPlan = import('nestjs-zookeeper/testing').FaultPlan;
type SimulationError = import('nestjs-zookeeper/testing').SimulationError;

/** The number of parts of a scenario: enough to keep all processes busy until the end. */
const PARTS = { single: 4, pairs: 200 };
/** The number of violations of one scenario that are listed. */
const MAX_LISTED = 10;
const VIOLATED = 1;
const NOT_RUN = 2;
const INTERRUPTED = 130;

/** The figures of one scenario on one kind of server, which are added up over its parts. */
interface Figures {
  moments: number;
  faults: number;
  schedules: number;
  readonly behaviours: Set<string>;
  readonly skipped: { commuting: number; repeated: number; ineffective: number; late: number };
  violations: number;
  readonly listed: { readonly plan: FaultPlan; readonly message: string }[];
  digest: bigint;
}

const options = readExploreOptions();
const lib = options.lib ?? DEFAULT_LIB;
const started = performance.now();
/** When no further run starts. */
const until = started + options.minutes * 60_000;
const { stop, forget } = stopAtInterrupt();
try {
  if (options.mutants) {
    const { mutants, scenarios, workers } = options;
    process.exitCode = await runMutants(mutants, scenarios, workers, until, stop.signal);
  } else if (options.plan) await replay(options.scenarios[0]!, options.plan);
  else await exploreAll();
} catch (error) {
  console.error(messageOf(stop.signal.aborted ? stop.signal.reason : error));
  process.exitCode = stop.signal.aborted ? INTERRUPTED : NOT_RUN;
} finally {
  forget();
}

/** Runs one plan and prints what happened. */
async function replay(name: string, plan: FaultPlan): Promise<void> {
  const library = await loadLibrary(lib);
  const server = options.server ?? 'zookeeper';
  const { violations } = await exploreScenario(library, SCENARIOS[name]!, server, { plan });
  const [violation] = violations;
  if (!violation) return console.log('no violation');
  printTrace(violation.error);
  process.exitCode = VIOLATED;
}

function printTrace({ cause, message, trace }: SimulationError): void {
  console.log(sideBySide(trace));
  console.log(cause instanceof Error ? cause.message : message);
}

async function exploreAll(): Promise<void> {
  const { scenarios, pairs, json, workers } = options;
  const count = pairs ? PARTS.pairs : PARTS.single;
  const parts = partsOf(scenarios, options.server, pairs, count);
  const all = new Map<string, Figures>();
  const remaining = new Map<string, number>();
  for (const { scenario, server } of parts) {
    const key = nameOf(scenario, server);
    remaining.set(key, count);
    all.set(key, emptyFigures());
  }
  const errors: string[] = [];
  const report = (part: Part, result: PartResult) => {
    const key = nameOf(part.scenario, part.server);
    if ('error' in result) errors.push(`${key}: ${result.error}`);
    else add(all.get(key)!, result);
    remaining.set(key, remaining.get(key)! - 1);
    // A scenario that fails without a fault has no figures.
    const { schedules } = all.get(key)!;
    if (remaining.get(key) === 0 && !json && schedules > 0) print(part, all.get(key)!);
  };
  await exploreParts(parts, { lib, workers, until, signal: stop.signal, report });
  if (errors.length > 0) {
    for (const error of new Set(errors)) console.error(error);
    process.exitCode = NOT_RUN;
    return;
  }
  summarize([...all.values()]);
  if ([...all.values()].some(({ violations }) => violations > 0)) process.exitCode = VIOLATED;
}

function nameOf(scenario: string, server: EmbeddedServerKind): string {
  return server === 'zookeeper' ? scenario : `${scenario} (${server})`;
}

function emptyFigures(): Figures {
  return {
    ...{ moments: 0, faults: 0, schedules: 0, violations: 0, digest: 0n },
    behaviours: new Set(),
    skipped: { commuting: 0, repeated: 0, ineffective: 0, late: 0 },
    listed: [],
  };
}

function add(to: Figures, result: Exclude<PartResult, { error: string }>): void {
  to.moments = result.moments;
  to.faults = result.faults;
  to.schedules += result.schedules;
  for (const each of result.behaviours) to.behaviours.add(each);
  to.skipped.commuting += result.skipped.commuting;
  to.skipped.repeated += result.skipped.repeated;
  to.skipped.ineffective += result.skipped.ineffective;
  to.skipped.late += result.skipped.late;
  to.violations += result.violationCount;
  to.digest = BigInt.asUintN(64, to.digest + BigInt(`0x${result.digest}`));
  for (const each of result.violations) if (to.listed.length < MAX_LISTED) to.listed.push(each);
}

function print({ scenario, server }: Part, figures: Figures): void {
  const { moments, faults, schedules, behaviours, skipped, violations, listed, digest } = figures;
  const { commuting, repeated, ineffective, late } = skipped;
  const left = late > 0 ? `, ${late} not run because the time was over` : '';
  console.log(
    `${nameOf(scenario, server)}: ${moments} moments, ${faults} faults; ${schedules} schedules, of which ${behaviours.size} differ; skipped ${commuting} that commute with the next event, ${ineffective} without effect and ${repeated} before a further keep-alive${left}; ${violations} violations; digest ${hex(digest)}`,
  );
  for (const { plan, message } of listed) {
    const options = `--scenario ${quote(scenario)}${server === 'zookeeper' ? '' : ` --server ${server}`}`;
    console.log(`  ${message}`);
    console.log(`    npm run explore -- ${options} --plan ${quote(JSON.stringify(plan))}`);
  }
}

function summarize(all: readonly Figures[]): void {
  const sum = (of: (figures: Figures) => number) =>
    all.reduce((total, each) => total + of(each), 0);
  const total = {
    scenarios: all.length,
    moments: sum(({ moments }) => moments),
    schedules: sum(({ schedules }) => schedules),
    different: sum(({ behaviours }) => behaviours.size),
    skipped: sum(({ skipped }) => skipped.commuting + skipped.repeated + skipped.ineffective),
    unfinished: sum(({ skipped }) => skipped.late),
    violations: sum(({ violations }) => violations),
    digest: hex(all.reduce((digest, each) => BigInt.asUintN(64, digest + each.digest), 0n)),
    seconds: Number(((performance.now() - started) / 1000).toFixed(1)),
  };
  if (options.json) {
    const violations = all.flatMap(({ listed }) => listed);
    for (const { plan, message } of violations) console.error(`${JSON.stringify(plan)} ${message}`);
    console.log(JSON.stringify(total));
    return;
  }
  console.log(
    `${total.scenarios} scenarios, ${total.moments} moments, ${total.schedules} schedules, ${total.different} different, ${total.violations} violations, digest ${total.digest}, ${total.seconds} s`,
  );
}

function hex(digest: bigint): string {
  return digest.toString(16).padStart(16, '0');
}

/** Returns a text as one argument of a POSIX shell. */
function quote(text: string): string {
  return /^[\w-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
