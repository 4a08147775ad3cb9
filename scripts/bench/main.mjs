// npm run bench -- [options], which --help lists
// First, so that --help and a wrong option end the process before anything else is loaded.
import { options } from './options.mjs';
import { mkdtemp, rm } from 'node:fs/promises';
import { cpus, loadavg, tmpdir } from 'node:os';
import { join } from 'node:path';
import { stopAtInterrupt, unlessAborted } from '../interrupt.js';
import { messageOf } from '../message-of.mjs';
import { percentile } from '../percentile.js';
import { Bench } from './measure.mjs';
import { measureSync } from './servers.mjs';
import { ratiosOf, rounded, summarize } from './summary.mjs';
import { ALL_OURS, TRANSPORTS } from './limits.mjs';
import { Systems } from './systems.mjs';
import { printCase, printLeftOut, printSetting } from './table.mjs';
import { writeDocument } from './document.mjs';

const { stop, forget } = stopAtInterrupt();

const directory = await mkdtemp(join(tmpdir(), 'bench-'));
const systems = new Systems(stop.signal, options.servers);

for (const runtime of options.runtimes) Systems.addRuntime(runtime);
const bench = new Bench(systems, { ...options, directory });

async function measure() {
  const setting = await settingOf();
  if (!options.json) printSetting(setting);
  const cases = {};
  const ratios = Object.fromEntries(Object.keys(TRANSPORTS).map((name) => [name, {}]));
  for (const spec of options.cases) {
    const runs = await bench.measure(spec);
    cases[spec.name] = summarize(runs);
    for (const [transport, system] of Object.entries(TRANSPORTS)) {
      ratios[transport][spec.name] = ratiosOf(runs, system);
    }
    if (!options.json) printCase(spec, cases[spec.name], ratios);
  }
  if (!options.json) printLeftOut(setting.leftOut);
  const { failures } = bench;
  return { cases, ratios, setting: { ...setting, loadAfter: load() }, failures };
}

async function settingOf() {
  const syncs = await measureSync();
  const all = [...new Set(options.cases.flatMap((spec) => spec.systems))];
  const missing = all.filter((system) => Systems.missing(system));
  const processors = cpus();
  return {
    processors: `${processors.length} × ${processors[0]?.model ?? 'unknown'}`,
    node: process.version,
    loadBefore: load(),
    forceSync: 'yes',
    fsync: { p50: rounded(percentile(syncs, 0.5)), p99: rounded(percentile(syncs, 0.99)) },
    seconds: options.seconds,
    repetitions: options.repetitions,
    servers: options.servers,
    quick: options.quick,
    leftOut: Object.fromEntries(missing.map((system) => [system, Systems.missing(system)])),
  };
}

function load() {
  return rounded(loadavg()[0]);
}

try {
  if (ALL_OURS.every((system) => Systems.missing(system)))
    throw new Error('no system of this library can run here');
  const report = await unlessAborted(stop.signal, measure());
  if (options.json) console.log(JSON.stringify(report));
  if (options.write) await writeDocument(report, options.cases);
} catch (error) {
  bench.failures.push(messageOf(error));
} finally {
  for (const failure of bench.failures) console.error(`FAILED: ${failure}`);
  process.exitCode = bench.failures.length === 0 ? 0 : 1;
  await systems.stop();
  await rm(directory, { recursive: true, force: true });
  forget();
}
