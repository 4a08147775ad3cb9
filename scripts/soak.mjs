// npm run soak -- [--minutes N] [--connects 1000] [--acquires 100000]
// Connects and closes, acquires and releases, in one process beside its server, and looks whether
// memory stays flat, no handle is left, and the process exits by itself.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { EmbeddedZooKeeper } from 'nestjs-zookeeper/embedded';
import { Mutex, ZkClient } from 'nestjs-zookeeper/recipes';

const MEGABYTE = 2 ** 20;
const LIMITS = { heap: 4 * MEGABYTE, rss: 32 * MEGABYTE };
const EXIT_WITHIN = 2_000;

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
  if (failures.length === 0)
    console.log('Memory stayed flat, no handle was left, it exited by itself.');
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
      ...(await flat(`round ${round}: connect and close`, options.connects, 1, async () => {
        const client = new ZkClient({ connectString, sessionTimeout: 10_000 });
        await client.connect();
        await client.close();
      })),
    );
    const client = new ZkClient({ connectString, sessionTimeout: 10_000 });
    await client.connect();
    failures.push(
      ...(await flat(`round ${round}: acquire and release`, options.acquires, 64, async (cycle) => {
        await new Mutex(client, `/soak/${cycle % 100}`).withLock(() => undefined);
      })),
    );
    await client.close();
  } while (performance.now() < until && failures.length === 0);
  await delay(100);
  const after = process.getActiveResourcesInfo().sort().join();
  if (after !== before) failures.push(`handles are left: ${after} (at the start: ${before})`);
  process.send(failures);
  process.disconnect();
}

/** Runs `total` cycles, `width` at a time, and compares memory after a fifth of them with the end. */
async function flat(name, total, width, cycle) {
  let next = 0;
  const until = async (last) => {
    await Promise.all(
      Array.from({ length: width }, async () => {
        while (next < last) await cycle(next++);
      }),
    );
    globalThis.gc();
    const { heapUsed, rss } = process.memoryUsage();
    const megabytes = (bytes) => (bytes / MEGABYTE).toFixed(1);
    console.log(
      `${name}: ${next} cycles, heap ${megabytes(heapUsed)} MB, rss ${megabytes(rss)} MB`,
    );
    return { heap: heapUsed, rss };
  };
  const early = await until(Math.ceil(total / 5));
  for (const part of [2, 3, 4]) await until(Math.ceil((total * part) / 5));
  const late = await until(total);
  return Object.keys(LIMITS)
    .filter((kind) => late[kind] - early[kind] > LIMITS[kind])
    .map(
      (kind) => `${name}: ${kind} grew by ${((late[kind] - early[kind]) / MEGABYTE).toFixed(1)} MB`,
    );
}

function count(name) {
  const value = Number(values[name]);
  if (!(value >= 0)) {
    console.error(`--${name} must be a number of 0 or more, but is ${values[name]}`);
    process.exit(2);
  }
  return value;
}
