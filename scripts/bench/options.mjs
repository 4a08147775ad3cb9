import { existsSync } from 'node:fs';
import {
  flagOption,
  jsonOption,
  listOption,
  numberOption,
  readOptions,
  UsageError,
  wholeNumberOption,
} from '../options.mjs';
import { CASES, quickly } from './cases.mjs';
import { OURS } from './limits.mjs';

/** Overrides --seconds and --repetitions. */
const QUICK = { seconds: 0.1, repetitions: 1 };
const NAMES = CASES.map(({ name }) => name);

/** Reads the options of `npm run bench`, with the cases themselves instead of their names. */
function read() {
  const options = readOptions(
    {
      name: 'bench',
      about: `Measures the locks of this library beside Apache Curator, kazoo, node-redlock on Redis and the bare
native client, in one run on one ZooKeeper or on one ensemble, in turns. Beside a case in which a lock is handed over within a
process, a prober in another process requests the same lock now and then.

The exit code is 0 if each system that is installed has a result in each of its cases, the prober was always served in
time, and no two callers were ever in a critical section together; 1 if not, and 2 for a wrong option.

Cases:
${CASES.map(({ name, title }) => `  ${name.padEnd(22)}${title}`).join('\n')}`,
      options: {
        cases: {
          ...listOption('names of cases, separated by commas', 'all', (_, text) => text),
          read: (_, text) => (text === undefined ? NAMES : text.split(',').map(known)),
        },
        seconds: numberOption('length of a measurement', 1, { min: 0.1, max: 60, unit: 'seconds' }),
        repetitions: wholeNumberOption('number of measurements of each case and system', 3, {
          min: 1,
          max: 100,
        }),
        servers: wholeNumberOption('number of ZooKeeper servers, an ensemble if more than one', 1, {
          min: 1,
          max: 5,
        }),
        runtimes: {
          ...listOption(
            'other runtimes for this library, such as bun=/opt/bun/bin/bun',
            'none',
            (_, text) => text,
          ),
          read: (_, text) => (text === undefined ? [] : text.split(',').map(runtime)),
        },
        quick: flagOption(
          `show that each row works: ${QUICK.seconds} s, ${QUICK.repetitions} repetition, few callers and keys`,
        ),
        write: flagOption('update docs/evidence/benchmark.md; needs all cases'),
        json: jsonOption,
      },
    },
    ({ write, quick, cases, servers }) => {
      if (write && quick) {
        throw new UsageError('--write cannot be combined with --quick: its figures mean nothing');
      }
      if (write && servers > 1) {
        throw new UsageError(
          '--write cannot be combined with --servers: the document shows one server',
        );
      }
      if (write && cases.length < NAMES.length) {
        throw new UsageError(
          '--write cannot be combined with --cases: the document shows all cases',
        );
      }
    },
  );
  const added = options.runtimes.map(({ system }) => system);
  const cases = CASES.filter(({ name }) => options.cases.includes(name)).map((spec) =>
    // The memory of another runtime cannot be measured in the same way.
    spec.systems.includes(OURS) && !['memory', 'decorator'].includes(spec.kind)
      ? { ...spec, systems: [...spec.systems, ...added] }
      : spec,
  );
  return options.quick
    ? { ...options, ...QUICK, cases: cases.map(quickly) }
    : { ...options, cases };
}

/** Reads a runtime, such as `bun=/opt/bun/bin/bun`. */
function runtime(text) {
  const [name, program] = text.split('=');
  if (name && program && existsSync(program)) return { system: `ours (${name})`, program };
  throw new UsageError(
    `--runtimes has ${text}; expected a name and the path of a program, such as bun=/opt/bun/bin/bun`,
  );
}

function known(name) {
  if (NAMES.includes(name)) return name;
  throw new UsageError(`--cases has the unknown case ${name}; --help lists the cases`);
}

export const options = read();
