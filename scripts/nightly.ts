// npm run nightly -- [options], which --help lists
import { spawnSync } from 'node:child_process';
import { UsageError, readOptions, textOption } from './options.mjs';
import { WORKLOADS } from './simulation/options.js';
import { SUITES } from './test-suites.mjs';

interface NightlyPart {
  readonly name: string;
  /** Repeats the part alone. */
  readonly command: string;
}

const PARTS: readonly NightlyPart[] = [
  ...Object.keys(SUITES)
    .map((suite) => (suite === 'default' ? 'test' : `test:${suite}`))
    .map((name) => ({ name, command: `NIGHTLY=1 npm run ${name}` })),
  ...WORKLOADS.map((workload) => ({
    name: `simulate-${workload}`,
    command: `npm run simulate -- --workload ${workload} --minutes 10`,
  })),
  {
    name: 'simulate-keeper',
    command: 'npm run simulate -- --server clickhouse-keeper --minutes 10',
  },
  { name: 'explore', command: 'npm run explore' },
  {
    name: 'explore-pairs',
    command: 'npm run explore -- --pairs --scenario "mutex,handover,read/write lock" --minutes 240',
  },
  { name: 'model', command: 'npm run model' },
  { name: 'traces', command: 'npm run traces -- --seeds 2000' },
  { name: 'mutants', command: 'npm run simulate -- --mutants' },
  ...(['wire', 'native'] as const).map((transport) => ({
    name: `chaos-${transport}`,
    command: `npm run chaos -- --server ensemble --transport ${transport} --minutes 10`,
  })),
  { name: 'soak', command: 'npm run check:soak' },
  { name: 'matrix', command: 'npm run matrix' },
  { name: 'walk', command: 'npm run walk' },
  { name: 'bench', command: 'npm run bench' },
  { name: 'failover', command: 'npm run bench:failover' },
  { name: 'herd', command: 'npm run bench:herd' },
];

const { only } = readOptions({
  name: 'nightly',
  about: `Runs the work that is too long for the gate, part after part, and prints a table of the results:
${PARTS.map(({ name }) => name).join(', ')}.

The exit code is 0 if all parts pass, 1 if one fails, and 2 for a wrong option.`,
  options: {
    only: textOption(
      'LIST',
      'names of parts, separated by commas (default: all parts)',
      (name, text) => {
        const unknown = text.split(',').find((part) => !PARTS.some((each) => each.name === part));
        if (unknown !== undefined) throw new UsageError(`--${name} names no part: ${unknown}`);
      },
    ),
  },
});

const names = only?.split(',');
const rows: string[] = [];
let failed = false;
for (const { name, command } of PARTS.filter(({ name }) => names?.includes(name) ?? true)) {
  console.log(`\n# ${name}: ${command}`);
  const started = performance.now();
  const { status } = spawnSync(command, { shell: true, stdio: ['ignore', 'inherit', 'inherit'] });
  const seconds = ((performance.now() - started) / 1000).toFixed(0);
  failed ||= status !== 0;
  rows.push(`| ${name} | ${status === 0 ? 'passed' : 'FAILED'} | ${seconds} s | \`${command}\` |`);
}
console.log(
  ['', '| part | result | time | command |', '| --- | --- | --- | --- |', ...rows].join('\n'),
);
process.exitCode = failed ? 1 : 0;
