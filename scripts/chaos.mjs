// npm run chaos -- [--minutes 1] [--seed N] [--server embedded|ensemble] [--transport native|wire]
//                  [--workers 4] [--report FILE] [--json]
// Worker processes take and give back leases of every recipe on a few keys and take part in two
// elections, nest locks in one order, and write under their fencing tokens to a store in this process,
// while a nemesis deals faults: it cuts, stalls and slows their network, ends their sessions, blocks, stops
// and kills them, and restarts, kills and pauses servers. What each process wrote down is checked in the end.
//
// The faults are the same for the same seed; what they meet is up to the machine. Exits 0 only without a
// violation.
import { randomInt } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { check } from './chaos/checker.mjs';
import { readHistories } from './chaos/histories.mjs';
import { toHtml } from './chaos/page.mjs';
import { run } from './chaos/run.mjs';
import { summarize, toText } from './chaos/summary.mjs';
import { hasReal } from './faults/real-server.mjs';
import { stopAtInterrupt } from './interrupt.mjs';
import { number, oneOf, optionsOf, wholeNumber } from './options.mjs';

const SESSION_TIMEOUT = 3_000;
const TICK_TIME = 250;
const MOST_MINUTES = 24 * 60;
const MOST_WORKERS = 16;
const MOST_SEED = 2 ** 31;

const options = optionsOf(
  {
    minutes: { type: 'string', default: '1' },
    seed: { type: 'string' },
    server: { type: 'string' },
    transport: { type: 'string' },
    workers: { type: 'string', default: '4' },
    report: { type: 'string' },
    json: { type: 'boolean', default: false },
  },
  ({ minutes, workers, transport, seed = String(randomInt(MOST_SEED)), ...values }) => ({
    ...values,
    minutes: number('minutes', minutes, 0.1, MOST_MINUTES),
    seed: wholeNumber('seed', seed, 0, MOST_SEED),
    workers: wholeNumber('workers', workers, 2, MOST_WORKERS),
    server:
      oneOf('server', values.server, ['embedded', 'ensemble']) ??
      (hasReal() ? 'ensemble' : 'embedded'),
    transport: oneOf('transport', transport, ['native', 'wire']),
  }),
);
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
  if (options.report) await writeFile(options.report, toHtml(history, summary));
  const violations = checks.flatMap((made) => made.violations);
  for (const violation of violations) console.error(`VIOLATION: ${violation}`);
  found = violations.length > 0;
  if (found) fail(`${violations.length} violations, see ${directory}`);
} catch (error) {
  // Whatever was waited for says only that it was aborted.
  fail(stop.signal.aborted ? stop.signal.reason.message : error.stack);
} finally {
  forget();
  // What happened is needed where it should not have.
  if (!found) await rm(directory, { recursive: true, force: true });
}

function fail(why) {
  console.error(`FAILED with --seed ${options.seed}: ${why}`);
  process.exitCode = 1;
}

function progress({ elapsed, dealt }) {
  if (!process.stderr.isTTY) return;
  const done = Math.min(100, (elapsed / (options.minutes * 60_000)) * 100).toFixed(0);
  process.stderr.write(`\r${done} %, ${dealt} faults${done === '100' ? '\n' : ''}`);
}
