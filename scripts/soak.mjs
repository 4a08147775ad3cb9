// npm run soak -- [--minutes N] [--connects 1000] [--acquires 100000]
// Connects and closes, acquires and releases by every recipe, in rounds, in one process beside its server.
// Looks whether memory, handles, and the server's watches and znodes stay flat over each part of a round and,
// from the second round on, at the end of the same part over the rounds, no handle is left, and the process
// exits by itself. The numbers are for the first three rounds together; more follow until the minutes are over.
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
import { number, optionsOf, wholeNumber } from './options.mjs';

const MEGABYTE = 2 ** 20;
const KEYS = 100;
/** The first one warms up, and the others are compared: at least two. */
const LEAST_ROUNDS = 3;
/** How much more there may be at the end of a part than at the end of the same part of the second round. */
const LIMITS = {
  heap: 4 * MEGABYTE,
  rss: 32 * MEGABYTE,
  handles: 0,
  watches: 0,
  ephemerals: 0,
};
/**
 * How much more than after a fifth of its cycles. Directories are counted here alone: a container is reaped
 * some time after its last child.
 */
const PART_LIMITS = { ...LIMITS, znodes: 6 * KEYS };
const EXIT_WITHIN = 10_000;
const ANSWER_WITHIN = 30_000;
/** Milliseconds between two looks at the server, and until the last of them. */
const SETTLE = 100;
const SETTLED_WITHIN = 20_000;
const MOST_MINUTES = 7 * 24 * 60;
const MOST_CYCLES = 1e9;

const options = optionsOf(
  {
    minutes: { type: 'string', default: '0' },
    connects: { type: 'string', default: '1000' },
    acquires: { type: 'string', default: '100000' },
    server: { type: 'string' },
  },
  ({ minutes, connects, acquires, server }) => ({
    minutes: number('minutes', minutes, 0, MOST_MINUTES),
    connects: wholeNumber('connects', connects, 0, MOST_CYCLES),
    acquires: wholeNumber('acquires', acquires, 0, MOST_CYCLES),
    server,
  }),
);

if (options.server) await work();
else await supervise();

async function supervise() {
  const server = await EmbeddedZooKeeper.start();
  const child = fork(
    import.meta.filename,
    [...process.argv.slice(2), '--server', server.connectString],
    { execArgv: ['--expose-gc'] },
  );
  const interrupt = () => child.kill();
  process.once('SIGINT', interrupt).once('SIGTERM', interrupt);
  const exited = once(child, 'exit');
  const [failures] = await Promise.race([once(child, 'message'), exited.then(() => [['it died']])]);
  const patience = new AbortController();
  const stuck = await Promise.race([
    exited.then(() => false),
    delay(EXIT_WITHIN, true, { signal: patience.signal }),
  ]);
  patience.abort();
  if (stuck) {
    failures.push(`it did not exit by itself within ${EXIT_WITHIN} ms`);
    child.kill('SIGKILL');
  }
  process.removeListener('SIGINT', interrupt).removeListener('SIGTERM', interrupt);
  for (const failure of failures) console.error(`FAILED: ${failure}`);
  if (failures.length === 0) console.log('Nothing grew, no handle was left, it exited by itself.');
  await server.stop();
  process.exitCode = failures.length === 0 ? 0 : 1;
}

async function work() {
  const connectString = options.server;
  const failures = [];
  const until = performance.now() + options.minutes * 60_000;
  // Opened here, so that they are not counted as left behind.
  void [process.stdout, process.stderr];
  await delay(100);
  const before = process.getActiveResourcesInfo().sort().join();
  /** By its name what there was at the end of a part of the second round. */
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
    await part('connect and close', Math.ceil(options.connects / LEAST_ROUNDS), 1, async () => {
      const client = new ZkClient({ connectString, sessionTimeout: 10_000 });
      await client.connect();
      await client.close();
    });
    const client = new ZkClient({ connectString, sessionTimeout: 10_000 });
    await client.connect();
    const cycles = cyclesOf(client);
    const each = Math.ceil(options.acquires / LEAST_ROUNDS / Object.keys(cycles).length);
    for (const [recipe, cycle] of Object.entries(cycles)) {
      await part(recipe, each, 64, (number) => cycle(`/soak/${recipe}/${number % KEYS}`));
    }
    await client.close();
  } while (failures.length === 0 && (round < LEAST_ROUNDS || performance.now() < until));
  await delay(100);
  const after = process.getActiveResourcesInfo().sort().join();
  if (after !== before) failures.push(`handles are left: ${after} (at the start: ${before})`);
  process.send(failures);
  process.disconnect();
}

/** What is done to a path over and over, by recipe. */
function cyclesOf(client) {
  const nothing = () => undefined;
  return {
    mutex: (path) => new Mutex(client, path).withLock(nothing),
    // All at one path, so that most of them give up.
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

/** Runs `total` cycles, `width` at a time: what there is after a fifth of them, and in the end. */
async function measure(name, total, width, cycle) {
  let next = 0;
  const until = async (last) => {
    await Promise.all(
      Array.from({ length: width }, async () => {
        while (next < last) await cycle(next++);
      }),
    );
    const left = await settled();
    globalThis.gc();
    const now = { ...here(), ...left };
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

function here() {
  const { heapUsed, rss } = process.memoryUsage();
  return { heap: heapUsed, rss, handles: process.getActiveResourcesInfo().length };
}

/** What the server has when nobody holds or waits for anything: what was left to the background takes a while. */
async function settled() {
  const deadline = performance.now() + SETTLED_WITHIN;
  for (;;) {
    await delay(SETTLE);
    const left = await there();
    const isQuiet = left.watches === 0 && left.ephemerals === 0;
    if (isQuiet || performance.now() > deadline) return left;
  }
}

/** By the server's own count. */
async function there() {
  const answer = await fourLetterWord(Number(options.server.split(':')[1]), 'mntr', ANSWER_WITHIN);
  const count = (name) => Number(new RegExp(`^zk_${name}\\s+(\\d+)$`, 'm').exec(answer)[1]);
  return {
    watches: count('watch_count'),
    ephemerals: count('ephemerals_count'),
    znodes: count('znode_count'),
  };
}
