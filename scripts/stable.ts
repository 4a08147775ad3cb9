// npm run test:stable -- [options], which --help lists
import { spawn, spawnSync } from 'node:child_process';
import { readOptions, wholeNumberOption } from './options.mjs';

const { times, busy } = readOptions({
  name: 'test:stable',
  about: `Repeats npm test beside busy loops, and prints the output of each run that fails.

The exit code is 0 if all runs pass, 1 if one fails, and 2 for a wrong option.`,
  options: {
    times: wholeNumberOption('number of runs', 20, { min: 1, max: 1000 }),
    busy: wholeNumberOption('number of busy loops', 0, { min: 0, max: 64 }),
  },
});

// A loop ends by itself when this process is gone.
const BUSY_LOOP = 'const parent = process.ppid; while (process.ppid === parent);';
const loops = Array.from({ length: busy }, () => spawn(process.execPath, ['-e', BUSY_LOOP]));
let passed = 0;
for (let run = 1; run <= times; run++) {
  const started = performance.now();
  const { status, stdout } = spawnSync('npm test 2>&1', {
    shell: true,
    encoding: 'utf8',
    maxBuffer: Infinity,
  });
  const seconds = ((performance.now() - started) / 1000).toFixed(0);
  const outcome = status === 0 ? 'passed' : 'FAILED';
  const lastLine = stdout.trimEnd().split('\n').at(-1);
  console.log(`run ${run} of ${times} ${outcome} after ${seconds} s: ${lastLine}`);
  if (status === 0) passed++;
  else console.log(stdout);
}
for (const loop of loops) loop.kill('SIGKILL');
console.log(`${passed} of ${times} runs passed beside ${busy} busy loops`);
process.exitCode = passed === times ? 0 : 1;
