// npm run chaos -- [options], which --help lists
// The faults are the same for the same seed; how they interleave with the workers depends on the machine.
import { randomInt } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { check } from './chaos/checker.js';
import { readHistories } from './chaos/histories.js';
import { toHtml } from './chaos/page.mjs';
import { run } from './chaos/run.mjs';
import { summarize, toText } from './chaos/summary.mjs';
import { hasReal } from './faults/real-server.mjs';
import { stopAtInterrupt } from './interrupt.js';
import {
  choiceOption,
  jsonOption,
  numberOption,
  readOptions,
  textOption,
  wholeNumberOption,
} from './options.mjs';

const SESSION_TIMEOUT = 3_000;
const TICK_TIME = 250;

const given = readOptions({
  name: 'chaos',
  about: `Worker processes acquire and release leases of every recipe on a few keys, take part in two elections,
nest locks in one order, and write under their fencing tokens to a store in this process. Meanwhile faults
are injected: networks are cut, held back and slowed down, sessions expired, processes blocked, paused and
killed, servers restarted, killed and paused. In the end the recorded events of all processes are checked.

The exit code is 0 without a violation, 1 with one, and 2 for a wrong option.`,
  options: {
    minutes: numberOption('length of the run', 1, { min: 0.1, max: 24 * 60, unit: 'minutes' }),
    seed: wholeNumberOption('seed of the faults; default: a random one', undefined, {
      min: 0,
      max: 2 ** 31,
    }),
    server: choiceOption('default: an ensemble of Apache ZooKeeper where it is installed', [
      'embedded',
      'ensemble',
    ]),
    transport: choiceOption('default: wire', ['wire', 'native']),
    workers: wholeNumberOption('number of worker processes', 4, { min: 2, max: 16 }),
    report: textOption('FILE', 'write a timeline of the run as an HTML page'),
    json: jsonOption,
  },
});
const options = {
  ...given,
  seed: given.seed ?? randomInt(2 ** 31),
  server: given.server ?? (hasReal() ? 'ensemble' : 'embedded'),
};
const { stop, forget } = stopAtInterrupt();

const directory = await mkdtemp(join(tmpdir(), 'chaos-'));
let found = false;
try {
  const { seed, server } = options;
  const setting = {
    ...options,
    milliseconds: options.minutes * 60_000,
    sessionTimeout: SESSION_TIMEOUT,
    tickTime: TICK_TIME,
    directory,
    signal: stop.signal,
  };
  if (!options.json) console.log(`seed ${seed}, ${server}, ${options.workers} workers`);
  await run(setting, progress);
  const history = readHistories(directory);
  const checks = check(history, setting);
  const summary = summarize(history, checks, setting);
  console.log(options.json ? JSON.stringify(summary) : toText(summary));
  if (options.report) await writeFile(options.report, await toHtml(history, summary));
  const violations = checks.flatMap((made) => made.violations);
  for (const violation of violations) console.error(`VIOLATION: ${violation}`);
  found = violations.length > 0;
  if (found) fail(`${violations.length} violations; the recorded events are in ${directory}`);
} catch (error) {
  // The error is only an AbortError then; the reason says more.
  fail(
    stop.signal.aborted ? stop.signal.reason.message : error instanceof Error ? error.stack : error,
  );
} finally {
  forget();
  // The recorded events are kept to explain a violation.
  if (!found) await rm(directory, { recursive: true, force: true });
}

function fail(why) {
  console.error(`FAILED with --seed ${options.seed}: ${why}`);
  process.exitCode = 1;
}

function progress({ elapsed, injected }) {
  if (!process.stderr.isTTY) return;
  const done = Math.min(100, (elapsed / (options.minutes * 60_000)) * 100).toFixed(0);
  process.stderr.write(`\r${done} %, ${injected} faults${done === '100' ? '\n' : ''}`);
}
