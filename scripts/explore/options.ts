import { availableParallelism } from 'node:os';
import {
  choiceOption,
  flagOption,
  jsonOption,
  listOption,
  numberOption,
  readOptions,
  textOption,
  UsageError,
  wholeNumberOption,
} from '../options.mjs';
import { checkLibrary } from '../simulation/library.js';
import { MUTANTS } from '../simulation/mutants/index.js';
import { SCENARIOS } from './scenarios.js';

type FaultPlan = import('nestjs-zookeeper/testing').FaultPlan;

const SERVERS = ['zookeeper', 'clickhouse-keeper'] as const;

/** Returns the options of this process's command line; see `readOptions`. */
export function readExploreOptions() {
  const names = Object.keys(SCENARIOS);
  const width = 2 + Math.max(...names.map((name) => name.length));
  const { scenario, plan, ...options } = readOptions({
    name: 'explore',
    about: `Runs small scenarios of the library under every fault at every moment, in virtual time.

The scenarios:
${names.map((name) => `  ${name.padEnd(width)}${SCENARIOS[name]!.covers}`).join('\n')}

The exit code is 0 without a violation, 1 with a violation, 2 if the command cannot run, such as for a wrong option, and 130
after an interrupt.`,
    options: {
      scenario: listOption('the scenarios, separated by commas', 'all', (option, text) => {
        if (text === 'all' || names.includes(text)) return text;
        throw new UsageError(`--${option} has no scenario ${text}; --help lists the scenarios`);
      }),
      pairs: flagOption('inject each pair of faults too'),
      minutes: numberOption('minutes after which no further run starts', 600, {
        min: 0.01,
        max: 6000,
      }),
      mutants: textOption(
        'LIST',
        'plant these bugs of npm run simulate, separated by commas, or all, and explore until a fault shows each',
        (option, text) => {
          const unknown = text.split(',').find((name) => name !== 'all' && !isMutant(name));
          if (unknown) throw new UsageError(`--${option} has no planted bug ${unknown}`);
        },
      ),
      plan: textOption('JSON', 'run one plan of one scenario, and print its trace'),
      server: choiceOption('only the scenarios that cover this kind of server', SERVERS),
      workers: wholeNumberOption('number of processes', availableParallelism(), {
        min: 1,
        max: 256,
      }),
      lib: textOption('DIR', 'the build of the library to test (default dist)', (_, text) =>
        checkLibrary(text),
      ),
      json: jsonOption,
    },
  });
  const chosen = scenario.includes('all') ? names : scenario;
  if (plan !== undefined && chosen.length !== 1) fail('--plan needs one --scenario');
  const { mutants, pairs, json, lib, server } = options;
  if (mutants !== undefined && (pairs || json || (plan ?? lib ?? server) !== undefined)) {
    fail('--mutants goes with --scenario, --minutes and --workers only');
  }
  return { ...options, scenarios: chosen, plan: plan === undefined ? undefined : parsePlan(plan) };
}

function isMutant(name: string): boolean {
  return MUTANTS.some((mutant) => mutant.name === name);
}

function parsePlan(text: string): FaultPlan {
  try {
    const plan = JSON.parse(text) as unknown;
    const isFault = (each: unknown) =>
      Array.isArray(each) &&
      each.length === 2 &&
      typeof each[0] === 'string' &&
      Number.isInteger(each[1]);
    if (Array.isArray(plan) && plan.every(isFault)) return plan as FaultPlan;
  } catch {
    // The error below names the option and its value.
  }
  return fail(
    `--plan must be a list of faults and moments, such as [["reset a",21]], but is ${text}`,
  );
}

function fail(message: string): never {
  console.error(message);
  process.exit(2);
}
