// npm run bench:failover -- [options], which --help lists
// On one machine a round trip is shorter than the pauses of its scheduler. So the links between the instances
// and their server have a latency, and a resignation during which the processes waited long for a processor
// is repeated, at most three times as often as there are resignations.
import { hasReal } from './faults/real-server.mjs';
import { startServer } from './faults/servers.mjs';
import { injectFaults, KINDS } from './failover/faults.mjs';
import { Fleet } from './failover/fleet.mjs';
import { judge } from './failover/judge.js';
import { stopAtInterrupt } from './interrupt.js';
import {
  choiceOption,
  jsonOption,
  numberOption,
  readOptions,
  UsageError,
  wholeNumberOption,
} from './options.mjs';
import { percentile } from './percentile.js';

const SESSION_TIMEOUT = 2_000;
const TICK_TIME = 500;
const FAULTS = { min: 0, max: 1_000 };

const options = readOptions(
  {
    name: 'bench:failover',
    about: `Three processes take part in one election. Their leader is killed, asked to resign, has its session
expired and its connection dropped. Measures how long there is no leader, and checks that there never are two.

The limit for a resignation is 3 times the median latency of a create; for the other faults it is the session
timeout and two ticks of the server. The exit code is 0 if all limits are kept and there never were two
leaders, 1 if not, and 2 for a wrong option.`,
    options: {
      server: choiceOption('default: both, where Apache ZooKeeper is installed', [
        'embedded',
        'real',
      ]),
      kills: wholeNumberOption('how often the leader is killed', 50, FAULTS),
      resignations: wholeNumberOption('how often it resigns', 50, FAULTS),
      expiries: wholeNumberOption('how often its session is expired', 20, FAULTS),
      drops: wholeNumberOption('how often its connection is dropped', 20, FAULTS),
      latency: numberOption('latency of the network, each way', 10, {
        min: 0,
        max: 100,
        unit: 'ms',
      }),
      json: jsonOption,
    },
  },
  (values) => {
    if (KINDS.every((kind) => values[kind] === 0)) {
      throw new UsageError(`--${KINDS.join(', --')} must not all be 0`);
    }
  },
);
const { stop, forget } = stopAtInterrupt();

async function measure(kind) {
  const { signal } = stop;
  const server = await startServer(kind, { tickTime: TICK_TIME, signal });
  const { latency } = options;
  const fleet = new Fleet(server, { latency, sessionTimeout: SESSION_TIMEOUT, signal });
  const creates = [];
  const report = () => {
    const setting = { sessionTimeout: SESSION_TIMEOUT, tickTime: TICK_TIME };
    return { server: kind, ...setting, ...judge(fleet.history, { ...setting, creates }) };
  };
  try {
    await fleet.start();
    await injectFaults(fleet, options, creates, (done, total) => progress(kind, done, total));
    return report();
  } catch (error) {
    // The failures so far may explain the error.
    if (!signal.aborted) printFailures(report());
    throw error;
  } finally {
    await fleet.stop();
    await server.stop();
  }
}

function progress(kind, done, total) {
  if (!process.stderr.isTTY) return;
  process.stderr.write(`\r${kind}: ${done} of ${total}${done === total ? '\n' : ''}`);
}

function toJson(report) {
  const { server, sessionTimeout, tickTime, failovers, overlaps, medianCreate, unaware } = report;
  const { kills, resignations, expiries, drops } = failovers;
  const { disturbed, survived } = report;
  return JSON.stringify({
    server,
    latency: options.latency,
    sessionTimeout,
    tickTime,
    kills: summary(kills),
    resignations: summary(resignations),
    expiries: summary(expiries),
    drops: { ...summary(drops), survived },
    overlaps,
    medianCreate: round(medianCreate),
    unaware: summary(unaware),
    disturbed: summary(disturbed),
  });
}

function summary(values) {
  return {
    count: values.length,
    p50: round(percentile(values, 0.5)),
    max: round(percentile(values, 1)),
  };
}

function print({ server, sessionTimeout, tickTime, failovers, limits, creates, ...report }) {
  const name = server === 'real' ? 'Apache ZooKeeper' : 'The embedded server';
  console.log(
    `${name}: session timeout ${sessionTimeout} ms, tick time ${tickTime} ms, latency ${options.latency} ms each way.\n`,
  );
  const line = (first, ...cells) =>
    console.log(first.padEnd(14) + cells.map((cell) => String(cell).padStart(10)).join(''));
  const row = (what, values, limit) => {
    const part = (of) => percentile(values, of)?.toFixed(2) ?? '-';
    line(what, values.length, part(0.5), part(0.9), part(1), limit?.toFixed(2) ?? '');
  };
  line('No leader, ms', 'Count', 'p50', 'p90', 'Max', 'Limit');
  for (const kind of KINDS) row(kind, failovers[kind], limits[kind]);
  row('(disturbed)', report.disturbed);
  row('(a create)', creates);
  const { unaware, refusedWrites, overlaps, survived } = report;
  const longest = (percentile(unaware, 1) ?? 0).toFixed(2);
  console.log(
    `\nTwo leaders at a time: ${overlaps}. Dropped connections that the leader survived: ${survived}.`,
  );
  console.log(
    `Leaders that did not know yet that their session had expired: ${unaware.length}, for at most ${longest} ms; ` +
      `writes refused by their tokens: ${refusedWrites}.\n`,
  );
}

function printFailures({ server, failures }) {
  for (const failure of failures) console.error(`FAILED: ${server}: ${failure}`);
}

function round(value) {
  return value === undefined ? undefined : Math.round(value * 100) / 100;
}

/** Both servers, or the chosen one. JSON is one object, so it is of one server. */
function servers() {
  if (options.server) return [options.server];
  if (!hasReal()) return ['embedded'];
  return options.json ? ['real'] : ['embedded', 'real'];
}

try {
  for (const kind of servers()) {
    const report = await measure(kind);
    if (options.json) console.log(toJson(report));
    else print(report);
    printFailures(report);
    if (report.failures.length > 0) process.exitCode = 1;
  }
} catch (error) {
  // The error is only an AbortError then; the reason says more.
  const { message } = stop.signal.aborted ? stop.signal.reason : error;
  console.error(`FAILED: ${message}`);
  process.exitCode = 1;
} finally {
  forget();
}
