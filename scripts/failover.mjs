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
import { setMaxListeners } from 'node:events';
import { parseArgs } from 'node:util';
import { hasReal } from './faults/real-server.mjs';
import { startServer } from './faults/servers.mjs';
import { afflict, KINDS } from './failover/faults.mjs';
import { Fleet } from './failover/fleet.mjs';
import { judge, percentile } from './failover/judge.mjs';

const SESSION_TIMEOUT = 2_000;
const TICK_TIME = 500;
const MOST_FAULTS = 1_000;
const MOST_LATENCY = 100;

const options = readOptions();
const stop = new AbortController();
setMaxListeners(0, stop.signal);
const interrupt = () => stop.abort(new Error('interrupted'));
process.once('SIGINT', interrupt).once('SIGTERM', interrupt);

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

function readOptions() {
  try {
    const number = (value) => ({ type: 'string', default: value });
    const { values } = parseArgs({
      options: {
        server: { type: 'string' },
        kills: number('50'),
        resignations: number('50'),
        expiries: number('20'),
        drops: number('20'),
        latency: number('10'),
        json: { type: 'boolean', default: false },
      },
    });
    const counts = {};
    for (const kind of KINDS) {
      counts[kind] = Number(values[kind]);
      if (!(Number.isInteger(counts[kind]) && counts[kind] >= 0 && counts[kind] <= MOST_FAULTS)) {
        throw new Error(
          `--${kind} must be a whole number from 0 to ${MOST_FAULTS}, but is ${values[kind]}`,
        );
      }
    }
    if (KINDS.every((kind) => counts[kind] === 0)) throw new Error('there is nothing to do');
    const { server, json } = values;
    const latency = Number(values.latency);
    if (!(latency >= 0 && latency <= MOST_LATENCY)) {
      throw new Error(
        `--latency must be from 0 to ${MOST_LATENCY} milliseconds, but is ${values.latency}`,
      );
    }
    if (server !== undefined && server !== 'embedded' && server !== 'real') {
      throw new Error(`--server must be embedded or real, but is ${server}`);
    }
    return { json, counts, latency, servers: serversFor(server, json) };
  } catch (error) {
    console.error(error.message);
    process.exit(2);
  }
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
  process.removeListener('SIGINT', interrupt).removeListener('SIGTERM', interrupt);
}
