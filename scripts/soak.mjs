// npm run soak -- [--minutes N] [--connects 1000] [--acquires 100000]
// Connects and closes, acquires and releases by every recipe, in one process beside its server, and
// looks whether memory, handles, and the server's watches and znodes stay flat, no handle is left, and
// the process exits by itself.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';
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

const MEGABYTE = 2 ** 20;
const KEYS = 100;
/** How much more there may be in the end than after a fifth of the cycles. */
const LIMITS = {
  heap: 4 * MEGABYTE,
  rss: 32 * MEGABYTE,
  handles: 0,
  watches: 0,
  ephemerals: 0,
  // Directories: a container is reaped some time after its last child.
  znodes: 6 * KEYS,
};
const EXIT_WITHIN = 2_000;
const SETTLE = 100;

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '0' },
    connects: { type: 'string', default: '1000' },
    acquires: { type: 'string', default: '100000' },
    server: { type: 'string' },
  },
});
const options = {
  minutes: count('minutes'),
  connects: count('connects'),
  acquires: count('acquires'),
};

if (values.server) await work(values.server);
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

async function work(connectString) {
  const failures = [];
  const until = performance.now() + options.minutes * 60_000;
  // Opened here, so that they are not counted as left behind.
  void [process.stdout, process.stderr];
  await delay(100);
  const before = process.getActiveResourcesInfo().sort().join();
  let round = 0;
  do {
    round++;
    failures.push(
      ...(await flat(
        `round ${round}: connect and close`,
        options.connects,
        1,
        connectString,
        async () => {
          const client = new ZkClient({ connectString, sessionTimeout: 10_000 });
          await client.connect();
          await client.close();
        },
      )),
    );
    const client = new ZkClient({ connectString, sessionTimeout: 10_000 });
    await client.connect();
    const cycles = cyclesOf(client);
    const each = Math.ceil(options.acquires / Object.keys(cycles).length);
    for (const [recipe, cycle] of Object.entries(cycles)) {
      failures.push(
        ...(await flat(`round ${round}: ${recipe}`, each, 64, connectString, (number) =>
          cycle(`/soak/${recipe}/${number % KEYS}`),
        )),
      );
    }
    await client.close();
  } while (performance.now() < until && failures.length === 0);
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

/** Runs `total` cycles, `width` at a time, and compares what there is after a fifth of them with the end. */
async function flat(name, total, width, connectString, cycle) {
  let next = 0;
  const until = async (last) => {
    await Promise.all(
      Array.from({ length: width }, async () => {
        while (next < last) await cycle(next++);
      }),
    );
    // What was left to the background has been sent, and is answered within this.
    await delay(SETTLE);
    globalThis.gc();
    const now = { ...here(), ...(await there(connectString)) };
    const megabytes = (bytes) => (bytes / MEGABYTE).toFixed(1);
    console.log(
      `${name}: ${next} cycles, heap ${megabytes(now.heap)} MB, rss ${megabytes(now.rss)} MB, ` +
        `${now.handles} handles, ${now.watches} watches, ${now.ephemerals} ephemerals, ${now.znodes} znodes`,
    );
    return now;
  };
  const early = await until(Math.ceil(total / 5));
  for (const part of [2, 3, 4]) await until(Math.ceil((total * part) / 5));
  const late = await until(total);
  return Object.keys(LIMITS)
    .filter((kind) => late[kind] - early[kind] > LIMITS[kind])
    .map((kind) => `${name}: ${kind} grew from ${early[kind]} to ${late[kind]}`);
}

function here() {
  const { heapUsed, rss } = process.memoryUsage();
  return { heap: heapUsed, rss, handles: process.getActiveResourcesInfo().length };
}

/** By the server's own count. */
async function there(connectString) {
  const answer = await fourLetterWord(Number(connectString.split(':')[1]), 'mntr');
  const count = (name) => Number(new RegExp(`^zk_${name}\\s+(\\d+)$`, 'm').exec(answer)[1]);
  return {
    watches: count('watch_count'),
    ephemerals: count('ephemerals_count'),
    znodes: count('znode_count'),
  };
}

function count(name) {
  const value = Number(values[name]);
  if (!(value >= 0)) {
    console.error(`--${name} must be a number of 0 or more, but is ${values[name]}`);
    process.exit(2);
  }
  return value;
}
