import { fileURLToPath } from 'node:url';
import { messageOf } from '../message-of.mjs';
import { loadLibrary } from '../simulation/library.js';
import { buildMutant, checkBuild, Compiler, removeBuild } from '../simulation/mutants/build.js';
import { MUTANTS } from '../simulation/mutants/index.js';
import { DEFAULT_LIB } from '../simulation/options.js';
import { exploreScenario } from './explore-scenario.js';
import { exploreParts, partsOf } from './parts.js';
import { SCENARIOS } from './scenarios.js';
import type { Part, PartResult } from './worker.js';

type FaultPlan = import('nestjs-zookeeper/testing').FaultPlan;

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
/** The number of parts of a scenario. The first parts of all scenarios run first. */
const PARTS = 6;
/** Milliseconds that a part may take. With some mutants a run never ends. */
const PART_LIMIT = 300_000;

/** What a mutant causes, with the plan and the scenario where the process has not ended. */
interface Finding {
  readonly message: string;
  readonly part?: Part;
  readonly plan?: FaultPlan;
}

/**
 * Plants one bug at a time into a copy of the build, and explores the scenarios until one of them shows it. Prints a line for
 * each bug. Returns the exit code: 0 if every bug was found, 1 if not.
 *
 * @param list the names of the bugs, separated by commas, or `all`
 * @param until when no further bug is planted, by `performance.now()`
 * @throws the reason of the signal
 */
export async function runMutants(
  list: string,
  scenarios: readonly string[],
  workers: number,
  until: number,
  signal: AbortSignal,
): Promise<number> {
  const names = list.split(',');
  const mutants = MUTANTS.filter(({ name }) => names.includes('all') || names.includes(name));
  const compiler = new Compiler(ROOT);
  for (const mutant of mutants) checkBuild(ROOT, compiler, mutant);
  // A process that fails with the unmodified library, too, would count as a finding.
  const trial = partsOf(['mutex'], 'zookeeper', false, 100).slice(0, 1);
  const trialRun = { lib: DEFAULT_LIB, workers: 1, until: Infinity, signal };
  await exploreParts(trial, { ...trialRun, report: () => {} });
  let found = 0;
  for (const mutant of mutants) {
    if (performance.now() > until) {
      console.log(`the time is over before ${mutant.name}`);
      break;
    }
    const started = performance.now();
    const lib = buildMutant(ROOT, compiler, mutant);
    let finding: Finding | undefined;
    try {
      finding = await findViolation(lib, scenarios, workers, signal);
    } finally {
      removeBuild(lib);
    }
    signal.throwIfAborted();
    if (finding) found++;
    const seconds = ((performance.now() - started) / 1000).toFixed(0).padStart(5);
    console.log(`${mutant.name.padEnd(48)}${seconds} s  ${describe(finding)}`);
  }
  console.log(`${found} of ${mutants.length} planted bugs found`);
  return found === mutants.length ? 0 : 1;
}

function describe(finding: Finding | undefined): string {
  if (!finding) return 'NOT FOUND';
  const { message, part, plan } = finding;
  const where = part ? `${part.scenario}, ${part.server}: ` : '';
  return `${where}${plan ? `${JSON.stringify(plan)}: ` : ''}${message.split('\n', 1)[0]}`;
}

/** Returns the first violation that the unmodified library does not have. */
export async function findViolation(
  lib: string,
  scenarios: readonly string[],
  workers: number,
  signal: AbortSignal,
): Promise<Finding | undefined> {
  const parts = partsOf(scenarios, undefined, false, PARTS);
  parts.sort((a, b) => a.shard.index - b.shard.index);
  const findings: Finding[] = [];
  const report = (part: Part, result: PartResult) => {
    if ('error' in result) findings.push({ message: result.error, part, plan: [] });
    else if (result.violations[0]) findings.push({ ...result.violations[0], part });
    if (findings.length > 0 || signal.aborted) parts.length = 0;
  };
  try {
    const run = { lib, workers, until: Infinity, limit: PART_LIMIT, signal };
    await exploreParts(parts, { ...run, report });
  } catch (error) {
    findings.push({ message: messageOf(error) });
  }
  const [finding] = findings;
  return finding && (await isOfUnmodified(finding)) ? undefined : finding;
}

async function isOfUnmodified({ part, plan }: Finding): Promise<boolean> {
  if (!part || !plan) return false;
  const library = await loadLibrary(DEFAULT_LIB);
  const { violations } = await exploreScenario(library, SCENARIOS[part.scenario]!, part.server, {
    plan,
  });
  return violations.length > 0;
}
