// npm run bench:transports -- [options], which --help lists
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { setTimeout as delay } from 'node:timers/promises';
import { EmbeddedZooKeeper } from 'nestjs-zookeeper/embedded';
import { ZkClient } from 'nestjs-zookeeper/recipes';
import {
  listOption,
  numberOption,
  readOptions,
  textOption,
  wholeNumber,
  wholeNumberOption,
} from './options.mjs';
import { percentile } from './percentile.js';

const MOST_KEYS = 10_000;
/** Milliseconds of each run before the measurement begins. */
const WARM_UP = 1000;

const options = readOptions({
  name: 'bench:transports',
  about: `Compares the native and the wire transport, in processes that take turns. The caller of each key creates
a node and lists its parent in one round trip, and deletes the node. Prints medians over the rounds.

The exit code is 0, and 2 for a wrong option.`,
  options: {
    connect: textOption('HOST:PORT', 'the server; default: an embedded one'),
    keys: listOption(`numbers of keys, each from 1 to ${MOST_KEYS}`, '1,64,512', (name, text) =>
      wholeNumber(name, text, 1, MOST_KEYS),
    ),
    seconds: numberOption('length of a run', 4, { min: 0.1, max: 3600, unit: 'seconds' }),
    rounds: wholeNumberOption('number of runs of each transport', 5, { min: 1, max: 100 }),
  },
});

if (process.send) process.once('message', work);
else await compare();

async function compare() {
  const { connect, seconds, rounds } = options;
  const milliseconds = 1000 * seconds;
  const server = connect ? undefined : await EmbeddedZooKeeper.start();
  const connectString = connect ?? server?.connectString;
  for (const keys of options.keys) {
    const runs = { native: [], wire: [] };
    for (let round = 0; round < rounds; round++) {
      for (const transport of Object.keys(runs)) {
        const child = fork(import.meta.filename);
        child.send({ connectString, transport, keys, milliseconds });
        const [run] = await once(child, 'message');
        runs[transport].push(run);
        await once(child, 'exit');
      }
    }
    for (const [transport, results] of Object.entries(runs)) {
      /** @param {'rate' | 'cpu' | 'p99'} name */
      const median = (name) =>
        Number(
          percentile(
            results.map((result) => result[name]),
            0.5,
          ),
        );
      console.log(
        `${String(keys).padStart(4)} keys  ${transport.padEnd(6)}  ${median('rate').toFixed(0).padStart(6)} cycles/s  ` +
          `${median('cpu').toFixed(0).padStart(4)} µs of CPU a cycle  event loop p99 ${median('p99').toFixed(1)} ms`,
      );
    }
  }
  await server?.stop();
}

async function work({ connectString, transport, keys, milliseconds }) {
  const client = new ZkClient({ connectString, transport });
  await client.connect();
  const root = `/transports-${process.pid}`;
  await client.create(root);
  const session = await client.session();
  let cycles = 0;
  let over = false;
  const cycle = async (key) => {
    const path = await client.create(`${root}/${key}`);
    while (!over) {
      const [node] = await Promise.all([
        session.create(`${path}/lock-`, 'x', { mode: 'ephemeral-sequential' }),
        session.children(path),
      ]);
      await session.delete(node);
      cycles++;
    }
    await client.delete(path);
  };
  const all = Promise.all(Array.from({ length: keys }, (_, key) => cycle(key)));
  await delay(WARM_UP);
  const loop = monitorEventLoopDelay({ resolution: 1 });
  loop.enable();
  const before = { cycles, cpu: process.cpuUsage(), at: performance.now() };
  await delay(milliseconds);
  const elapsed = performance.now() - before.at;
  const cpu = process.cpuUsage(before.cpu);
  const done = cycles - before.cycles;
  loop.disable();
  over = true;
  await all;
  await client.delete(root);
  await client.close();
  process.send?.({
    rate: (done / elapsed) * 1000,
    cpu: (cpu.user + cpu.system) / done,
    p99: loop.percentile(99) / 1e6,
  });
  process.disconnect();
}
