// The command `npm run model`. Searches all states of a model of the lock. `--help` lists the options.
import { stopAtInterrupt } from '../interrupt.js';
import { messageOf } from '../message-of.mjs';
import { flagOption, jsonOption, readOptions, textOption, UsageError } from '../options.mjs';
import { runs } from '../programs.mjs';
import { CONFIGURATIONS, type Configuration, modelBugs } from './configurations.js';
import { search, type Violation } from './search.js';

const VIOLATED = 1;
const NOT_RUN = 2;
const INTERRUPTED = 130;
const BUGS = modelBugs();

const options = readOptions(
  {
    name: 'model',
    about: `Searches all states of a model of the lock, scripts/model/lock.pml, for a violation of its properties: with some numbers of
processes, callers and faults, and then with each bug of npm run simulate that concerns the model. docs/internals/model.md
describes the model. Needs spin and gcc.

The exit code is 0 if there is no violation and each bug is found, 1 if not, and 2 if the command cannot run, such as for a wrong
option.`,
    options: {
      quick: flagOption('only small numbers: less than a minute'),
      bug: textOption(
        'NAME',
        'only plant this bug, and print a run that shows it',
        (option, text) => {
          if (BUGS.some(({ name }) => name === text)) return;
          throw new UsageError(`--${option} names no bug of the model: ${text}`);
        },
      ),
      json: jsonOption,
    },
  },
  ({ bug, quick, json }) => {
    if (bug !== undefined && (quick || json))
      throw new UsageError('--bug goes with no other option');
  },
);

// Spin runs the preprocessor of gcc.
const missing = ['spin -V', 'gcc --version'].flatMap((command) => {
  const [program, option] = command.split(' ');
  return runs(program!, option!) ? [] : [program!];
});
if (missing.length > 0) {
  console.error(
    `npm run model needs ${missing.join(' and ')}; install the Debian packages of that name`,
  );
  process.exit(NOT_RUN);
}
const { stop, forget } = stopAtInterrupt();
try {
  process.exitCode = options.bug === undefined ? await searchAll() : await showBug(options.bug);
} catch (error) {
  if (!stop.signal.aborted) console.error(messageOf(error));
  process.exitCode = stop.signal.aborted ? INTERRUPTED : NOT_RUN;
} finally {
  forget();
}

async function searchAll(): Promise<number> {
  const started = performance.now();
  const { signal } = stop;
  const total = { configurations: 0, states: 0, violations: 0, mutants: 0, found: 0, seconds: 0 };
  print(row('configuration', 'processes × callers × faults', 'states', 'depth', 'time'));
  for (const configuration of CONFIGURATIONS) {
    if (options.quick && !configuration.quick) continue;
    const { states, depth, seconds, violation } = await search(configuration, { signal });
    total.configurations++;
    total.states += states;
    const time = `${seconds.toFixed(1)} s`;
    print(row(configuration.name, sizeOf(configuration), states.toLocaleString('en'), depth, time));
    if (!violation) continue;
    total.violations++;
    console.error(textOf(violation));
  }
  for (const { name, rule, configuration } of BUGS) {
    const { violation } = await search(configuration, { bug: name, signal });
    total.mutants++;
    if (violation) total.found++;
    const found = violation
      ? `${violation.property}, after ${violation.trace.length} steps`
      : 'NOT FOUND';
    print(`rule ${rule}  ${name.padEnd(36)}${found}`);
  }
  total.seconds = Number(((performance.now() - started) / 1000).toFixed(1));
  const { configurations, states, violations, mutants, found, seconds } = total;
  if (options.json) console.log(JSON.stringify(total));
  print(
    `${configurations} configurations, ${states.toLocaleString('en')} states, ${violations} violations; ${found} of ${mutants} planted bugs found; ${seconds} s`,
  );
  return violations === 0 && found === mutants ? 0 : VIOLATED;
}

/** Prints the shortest run that shows a planted bug. */
async function showBug(bug: string): Promise<number> {
  const { configuration } = BUGS.find(({ name }) => name === bug)!;
  const { violation } = await search(configuration, { bug, shortest: true, signal: stop.signal });
  console.log(violation ? textOf(violation) : `${bug} was not found`);
  return violation ? 0 : VIOLATED;
}

function sizeOf({ constants: { NP, NC, NF } }: Configuration): string {
  return `${NP} × ${NC} × ${NF}`;
}

function textOf({ property, trace }: Violation): string {
  return [...trace, property].join('\n');
}

function row(name: string, size: string, ...columns: (string | number)[]): string {
  return (
    name.padEnd(32) + size.padEnd(30) + columns.map((each) => String(each).padStart(11)).join('')
  );
}

/** Prints a line, unless the result is to be one JSON object. */
function print(line: string): void {
  if (!options.json) console.log(line);
}
