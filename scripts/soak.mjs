// npm run check:soak -- [options], which --help lists
// The server runs in this process, and the clients in a child process whose resources are measured.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { EmbeddedZooKeeper } from 'nestjs-zookeeper/embedded';
import {
  LeaderLatch,
  LeaderSelector,
  MultiLock,
  Mutex,
  NonReentrantMutex,
  ReadWriteLock,
  revoke,
  Semaphore,
  ZkClient,
} from 'nestjs-zookeeper/recipes';
import { fourLetterWord } from './faults/real-server.mjs';
import { numberOption, readOptions, wholeNumberOption } from './options.mjs';

const MEGABYTE = 2 ** 20;
const KEYS = 100;
/** The first round warms up; the others, at least two, are compared. */
const MIN_ROUNDS = 3;
/** The maximum growth from the end of a part of the second round to the end of the same part of a later one. */
const LIMITS = {
  heap: 4 * MEGABYTE,
  rss: 32 * MEGABYTE,
  handles: 0,
  watches: 0,
  ephemerals: 0,
};
/**
 * The maximum growth within a part, after a fifth of its cycles. Znodes are counted here only, because the
 * server reaps an empty container some time after its last child.
 */
const PART_LIMITS = { ...LIMITS, znodes: 6 * KEYS };
/** Milliseconds. */
const EXIT_LIMIT = 10_000;
const ANSWER_LIMIT = 30_000;
const POLL = 100;
const SETTLE_LIMIT = 20_000;
const CYCLES = { min: 0, max: 1e9 };

const options = readOptions({
  name: 'check:soak',
  about: `Connects and closes clients, and acquires and releases leases of every recipe, in rounds. Checks that the
memory and handles of the process and the watches and znodes of the server do not grow, within a part of a
round or over the rounds; that no handle is left; and that the process exits by itself.

The exit code is 0 if nothing grew, 1 if something did, and 2 for a wrong option.`,
  options: {
    minutes: numberOption('time after which no further round begins; there are at least three', 0, {
      min: 0,
      max: 7 * 24 * 60,
      unit: 'minutes',
    }),
    connects: wholeNumberOption('connections in the first three rounds together', 1_000, CYCLES),
    acquires: wholeNumberOption('acquires in the first three rounds together', 100_000, CYCLES),
  },
});
/** The child process receives the address of its server here. */
const { SOAK_SERVER } = process.env;

if (SOAK_SERVER) await work();
else await supervise();

async function supervise() {
  const server = await EmbeddedZooKeeper.start({
    containerCheckInterval: 500,
    fourLetterWords: ['mntr'],
  });
  const child = fork(import.meta.filename, process.argv.slice(2), {
    execArgv: ['--expose-gc'],
    env: { ...process.env, SOAK_SERVER: server.connectString },
  });
  const interrupt = () => child.kill();
  process.once('SIGINT', interrupt).once('SIGTERM', interrupt);
  const exited = once(child, 'exit');
  const [failures] = await Promise.race([
    once(child, 'message'),
    exited.then(() => [['the process died']]),
  ]);
  const exit = new AbortController();
  const stuck = await Promise.race([
    exited.then(() => false),
    delay(EXIT_LIMIT, true, { signal: exit.signal }),
  ]);
  exit.abort();
  if (stuck) {
    failures.push(`the process did not exit by itself within ${EXIT_LIMIT} ms`);
    child.kill('SIGKILL');
  }
  process.removeListener('SIGINT', interrupt).removeListener('SIGTERM', interrupt);
  for (const failure of failures) console.error(`FAILED: ${failure}`);
  if (failures.length === 0)
    console.log('Nothing grew, no handle was left, and the process exited by itself.');
  await server.stop();
  process.exitCode = failures.length === 0 ? 0 : 1;
}

async function work() {
  const connectString = SOAK_SERVER;
  const failures = [];
  const until = performance.now() + options.minutes * 60_000;
  // Opens both streams, so that their handles are not counted as left over.
  void [process.stdout, process.stderr];
  await delay(100);
  const before = process.getActiveResourcesInfo().sort().join();
  /** The measurement at the end of each part of the second round, by name. */
  const second = new Map();
  let round = 0;
  const part = async (name, ...cycles) => {
    const { early, late } = await measure(`round ${round}: ${name}`, ...cycles);
    failures.push(...growth(`round ${round}: ${name}`, early, late, PART_LIMITS));
    if (round === 2) second.set(name, late);
    if (round > 2) {
      failures.push(...growth(`rounds 2 to ${round}: ${name}`, second.get(name), late, LIMITS));
    }
  };
  do {
    round++;
    await part('connect and close', Math.ceil(options.connects / MIN_ROUNDS), 1, async () => {
      const client = new ZkClient({ connectString, sessionTimeout: 10_000 });
      await client.connect();
      await client.close();
    });
    const client = new ZkClient({ connectString, sessionTimeout: 10_000 });
    await client.connect();
    const cycles = cyclesOf(client);
    const each = Math.ceil(options.acquires / MIN_ROUNDS / Object.keys(cycles).length);
    for (const [recipe, cycle] of Object.entries(cycles)) {
      await part(recipe, each, 64, (number) => cycle(`/soak/${recipe}/${number % KEYS}`));
    }
    await client.close();
  } while (failures.length === 0 && (round < MIN_ROUNDS || performance.now() < until));
  await delay(100);
  const after = process.getActiveResourcesInfo().sort().join();
  if (after !== before) failures.push(`handles are left: ${after} (at the start: ${before})`);
  process.send?.(failures);
  process.disconnect();
}

/** Returns what is repeated, by recipe. */
function cyclesOf(client) {
  const nothing = () => undefined;
  return {
    mutex: (path) => new Mutex(client, path).withLock(nothing),
    // All callers use one path, so that most of them time out.
    'given up': () =>
      new Mutex(client, '/soak/contended').withLock(() => delay(1), { wait: 5 }).catch(nothing),
    read: (path) => new ReadWriteLock(client, path).read.withLock(nothing),
    write: (path) => new ReadWriteLock(client, path).write.withLock(nothing),
    semaphore: (path) =>
      new Semaphore(client, path, { permits: 3 }).withLock(nothing, { count: 2 }),
    'non-reentrant': (path) => new NonReentrantMutex(client, path).withLock(nothing),
    multi: (path) =>
      new MultiLock([new Mutex(client, path), new Mutex(client, `${path}-b`)]).withLock(nothing),
    async revocation(path) {
      const lease = await new Mutex(client, path).acquire();
      const asked = new Promise((resolve) => lease.revocation.addEventListener('abort', resolve));
      const [holder] = await new Mutex(client, path).participants();
      if (holder) await revoke(client, holder);
      await asked;
      await lease.release();
    },
    async latch(path) {
      const latch = new LeaderLatch(client, path);
      latch.start();
      await latch.await();
      await latch.close();
    },
    async selector(path) {
      await new Promise((resolve) => {
        const selector = new LeaderSelector(client, path, () => selector.close().then(resolve));
        selector.start();
      });
    },
  };
}

/** Runs `total` cycles, `width` at a time, and measures after a fifth of them and at the end. */
async function measure(name, total, width, cycle) {
  let next = 0;
  const until = async (last) => {
    await Promise.all(
      Array.from({ length: width }, async () => {
        while (next < last) await cycle(next++);
      }),
    );
    const left = await settled();
    globalThis.gc?.();
    const now = { ...processCounts(), ...left };
    const megabytes = (bytes) => (bytes / MEGABYTE).toFixed(1);
    console.log(
      `${name}: ${next} cycles, heap ${megabytes(now.heap)} MB, rss ${megabytes(now.rss)} MB, ` +
        `${now.handles} handles, ${now.watches} watches, ${now.ephemerals} ephemerals, ${now.znodes} znodes`,
    );
    return now;
  };
  const early = await until(Math.ceil(total / 5));
  return { early, late: await until(total) };
}

function growth(name, early, late, limits) {
  return Object.keys(limits)
    .filter((kind) => late[kind] - early[kind] > limits[kind])
    .map((kind) => `${name}: ${kind} grew from ${early[kind]} to ${late[kind]}`);
}

function processCounts() {
  const { heapUsed, rss } = process.memoryUsage();
  return { heap: heapUsed, rss, handles: process.getActiveResourcesInfo().length };
}

/** Resolves with the server's counts when background deletes have finished. */
async function settled() {
  const deadline = performance.now() + SETTLE_LIMIT;
  for (;;) {
    await delay(POLL);
    const left = await serverCounts();
    const isQuiet = left.watches === 0 && left.ephemerals === 0;
    if (isQuiet || performance.now() > deadline) return left;
  }
}

/** Resolves with the server's counts. */
async function serverCounts() {
  const answer = await fourLetterWord(Number(SOAK_SERVER?.split(':')[1]), 'mntr', ANSWER_LIMIT);
  const count = (name) => Number(new RegExp(`^zk_${name}\\s+(\\d+)$`, 'm').exec(answer)?.[1]);
  return {
    watches: count('watch_count'),
    ephemerals: count('ephemerals_count'),
    znodes: count('znode_count'),
  };
}
