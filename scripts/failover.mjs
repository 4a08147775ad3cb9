// npm run failover -- [--server embedded|real] [--kills 50] [--resignations 50] [--expiries 20]
//                     [--drops 20] [--latency 10] [--json]
// Three instances as processes take part in one election. Their leader is killed, told to resign, has
// its session ended and its connection cut, and what happens to whom is recorded with times that can be
// compared over processes. Exits 0 only when there never were two leaders, and none only for as long as
// there may be: 3 times the median create after a resignation, the session timeout and two ticks of the
// server after everything else.
//
// On one machine a round trip is shorter than the pauses of its scheduler. Between the instances and
// their server is therefore a network that takes its time, and a resignation during which the processes
// had to wait for a processor for long does not count: it is repeated, three times as often as asked for
// at most.
import { hasReal } from './faults/real-server.mjs';
import { startServer } from './faults/servers.mjs';
import { afflict, KINDS } from './failover/faults.mjs';
import { Fleet } from './failover/fleet.mjs';
import { judge } from './failover/judge.mjs';
import { stopAtInterrupt } from './interrupt.mjs';
import { number, oneOf, optionsOf, wholeNumber } from './options.mjs';
import { percentile } from './percentile.mjs';

const SESSION_TIMEOUT = 2_000;
const TICK_TIME = 500;
const MOST_FAULTS = 1_000;
const MOST_LATENCY = 100;

const text = (value) => ({ type: 'string', default: value });
const options = optionsOf(
  {
    server: { type: 'string' },
    kills: text('50'),
    resignations: text('50'),
    expiries: text('20'),
    drops: text('20'),
    latency: text('10'),
    json: { type: 'boolean', default: false },
  },
  checkOptions,
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
    await afflict(fleet, options.counts, creates, (done, total) => progress(kind, done, total));
    return report();
  } catch (error) {
    // Whatever it waited for in vain, the reason may be there.
    if (!signal.aborted) complain(report());
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
    `${name}: session timeout ${sessionTimeout} ms, ticks of ${tickTime} ms, ${options.latency} ms each way to it.\n`,
  );
  const line = (first, ...cells) =>
    console.log(first.padEnd(14) + cells.map((cell) => String(cell).padStart(10)).join(''));
  const row = (what, values, limit) => {
    const part = (of) => percentile(values, of)?.toFixed(2) ?? '-';
    line(what, values.length, part(0.5), part(0.9), part(1), limit?.toFixed(2) ?? '');
  };
  line('nobody led, ms', 'count', 'p50', 'p90', 'max', 'limit');
  for (const kind of KINDS) row(kind, failovers[kind], limits[kind]);
  row('(disturbed)', report.disturbed);
  row('(a create)', creates);
  const { unaware, refusedWrites, overlaps, survived } = report;
  const longest = (percentile(unaware, 1) ?? 0).toFixed(2);
  console.log(
    `\nTwo leaders at a time: ${overlaps}. Dropped connections that ended no leadership: ${survived}.`,
  );
  console.log(
    `Led on until told that its session had been ended for it: ${unaware.length} times, ${longest} ms at most; ` +
      `writes refused by their tokens: ${refusedWrites}.\n`,
  );
}

function complain({ server, failures }) {
  for (const failure of failures) console.error(`FAILED: ${server}: ${failure}`);
}

function round(value) {
  return value === undefined ? undefined : Math.round(value * 100) / 100;
}

function checkOptions({ server, json, latency, ...values }) {
  const counts = Object.fromEntries(
    KINDS.map((kind) => [kind, wholeNumber(kind, values[kind], 0, MOST_FAULTS)]),
  );
  if (KINDS.every((kind) => counts[kind] === 0)) throw new Error('there is nothing to do');
  return {
    json,
    counts,
    latency: number('latency', latency, 0, MOST_LATENCY),
    servers: serversFor(oneOf('server', server, ['embedded', 'real']), json),
  };
}

/** Both, or the one that is asked for; of one alone there is JSON. */
function serversFor(asked, json) {
  if (asked) return [asked];
  if (!hasReal()) return ['embedded'];
  return json ? ['real'] : ['embedded', 'real'];
}

try {
  for (const kind of options.servers) {
    const report = await measure(kind);
    if (options.json) console.log(toJson(report));
    else print(report);
    complain(report);
    if (report.failures.length > 0) process.exitCode = 1;
  }
} catch (error) {
  // Whatever was waited for says only that it was aborted.
  const { message } = stop.signal.aborted ? stop.signal.reason : error;
  console.error(`FAILED: ${message}`);
  process.exitCode = 1;
} finally {
  forget();
}
