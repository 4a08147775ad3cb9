// npm run transports -- [--connect 127.0.0.1:2181] [--keys 1,64,512] [--seconds 4] [--rounds 5]
// The native and the wire transport side by side, in processes of their own that take turns: each key's
// caller creates a node and lists its parent in one flight, and deletes the node. Without --connect on an
// embedded server.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { setTimeout as delay } from 'node:timers/promises';
import { EmbeddedZooKeeper } from 'nestjs-zookeeper/embedded';
import { ZkClient } from 'nestjs-zookeeper/recipes';
import { number, optionsOf, wholeNumber } from './options.mjs';
import { percentile } from './percentile.mjs';

const MOST_KEYS = 10_000;
const MOST_SECONDS = 3600;
const MOST_ROUNDS = 100;
/** Of each run, before anything is counted: milliseconds. */
const WARM_UP = 1000;

const options = optionsOf(
  {
    connect: { type: 'string' },
    keys: { type: 'string', default: '1,64,512' },
    seconds: { type: 'string', default: '4' },
    rounds: { type: 'string', default: '5' },
  },
  ({ connect, keys, seconds, rounds }) => ({
    connect,
    keys: keys.split(',').map((count) => wholeNumber('keys', count, 1, MOST_KEYS)),
    milliseconds: 1000 * number('seconds', seconds, 0.1, MOST_SECONDS),
    rounds: wholeNumber('rounds', rounds, 1, MOST_ROUNDS),
  }),
);

if (process.send) process.once('message', work);
else await compare();

async function compare() {
  const { connect, milliseconds, rounds } = options;
  const server = connect ? undefined : await EmbeddedZooKeeper.start();
  const connectString = connect ?? server.connectString;
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
      const middle = (name) =>
        percentile(
          results.map((result) => result[name]),
          0.5,
        );
      console.log(
        `${String(keys).padStart(4)} keys  ${transport.padEnd(6)}  ${middle('rate').toFixed(0).padStart(6)} cycles/s  ` +
          `${middle('cpu').toFixed(0).padStart(4)} µs of CPU a cycle  event loop p99 ${middle('p99').toFixed(1)} ms`,
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
  process.send({
    rate: (done / elapsed) * 1000,
    cpu: (cpu.user + cpu.system) / done,
    p99: loop.percentile(99) / 1e6,
  });
  process.disconnect();
}
