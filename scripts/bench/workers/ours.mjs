// ours.mjs <native|wire> <connect string>: the locks of this library.
import {
  DistributedAtomicLong,
  DistributedQueue,
  JSON_SERIALIZER,
} from 'nestjs-zookeeper/coordination';
import { Mutex, ReadWriteLock, Semaphore, ZkClient } from 'nestjs-zookeeper/recipes';
import { Caches } from './caches.mjs';
import { now } from '../clock.js';
import { election } from './election.mjs';
import { drive, loadOf } from './drive.mjs';
import { memory } from './memory.mjs';
import { Sections } from './section.js';
import { serve } from './serve.mjs';

const LINGER = 1_000;
const MODES = {
  default: {},
  strict: { fairness: 'strict' },
  linger: { linger: LINGER },
  auto: { linger: 'auto' },
};
/** Every tenth turn of a caller is a write. */
const WRITE_EVERY = 10;
const UNLIMITED = 1_000_000;

const transport = process.argv[2] === 'native' ? 'native' : 'wire';
const [, , , connectString] = process.argv;
const connect = async () => {
  const client = new ZkClient({ connectString, transport });
  await client.connect();
  return client;
};
const client = await connect();
const caches = new Caches(client, connect);

/** For each kind of lock: the capacity of its critical section, and the lock and the weight of a visit in a turn. */
const KINDS = {
  mutex: (path) => {
    const lock = new Mutex(client, path);
    return { capacity: 1, take: () => ({ lock, weight: 1 }) };
  },
  semaphore: (path, { permits }) => {
    const lock = new Semaphore(client, path, { permits: Number(permits) });
    return { capacity: Number(permits), take: () => ({ lock, weight: 1 }) };
  },
  read: (path) => {
    const { read: lock } = new ReadWriteLock(client, path);
    return { capacity: UNLIMITED, take: () => ({ lock, weight: 1 }) };
  },
  'read-write': (path) => {
    const { read, write } = new ReadWriteLock(client, path);
    const reading = { lock: read, weight: 1 };
    const writing = { lock: write, weight: UNLIMITED };
    return {
      capacity: UNLIMITED,
      take: (turn) => (turn % WRITE_EVERY === WRITE_EVERY - 1 ? writing : reading),
    };
  },
};

serve({
  async run({ lock, mode, path, log, ...parameters }) {
    const load = loadOf(parameters);
    if (lock === 'counter') return count(path, load);
    if (lock === 'queue') return putAndHandle(path, load);
    const options = MODES[mode];
    const kindOf = (key) => KINDS[lock](`${path}/${key}`, parameters);
    // Of 100,000 keys, most are never drawn.
    const keys = load.zipf ? [] : Array.from({ length: load.keys }, (_, key) => kindOf(key));
    const sections = new Sections(kindOf(0).capacity, log);
    const result = await drive((key, turn) => {
      const { lock, weight } = (keys[key] ??= kindOf(key)).take(turn);
      return lock.withLock(
        ({ fencingToken }) => sections.visit(key, weight, fencingToken),
        options,
      );
    }, load);
    await sections.save();
    return { ...result, violations: sections.violations };
  },
  'open-cache': ({ path }) => caches.open(path),
  'set-cached': ({ znodes, ...parameters }) => caches.set(Number(znodes), loadOf(parameters)),
  elect: ({ path, participants, ...parameters }) =>
    election(connect, path, Number(participants), loadOf(parameters)),
  memory({ path, waiters }) {
    const lock = new Mutex(client, path);
    return memory(
      Number(waiters),
      () => lock.acquire(),
      () => client.sync('/'),
    );
  },
});

/** Increments a counter. An increment ends with its reply: there is nothing to release. */
async function count(path, load) {
  const counters = Array.from(
    { length: load.keys },
    (_, key) =>
      new DistributedAtomicLong(client, `${path}/${key}`, { lockPath: `${path}/${key}-lock` }),
  );
  const increment = async (key) => {
    await counters[key].increment();
    return now();
  };
  return { ...(await drive(increment, load)), violations: 0 };
}

/** Puts items, each of which this process handles. A turn of a caller ends when its item is handled. */
async function putAndHandle(path, load) {
  const queue = new DistributedQueue(client, `${path}/0`, { serializer: JSON_SERIALIZER });
  const handled = new Map();
  queue.consume((item) => handled.get(item)(now()), { concurrency: load.callers });
  let items = 0;
  const put = () => {
    const item = items++;
    return new Promise((resolve, reject) => {
      handled.set(item, (at) => {
        handled.delete(item);
        resolve(at);
      });
      queue.put(item).catch(reject);
    });
  };
  const result = await drive(put, load);
  await queue.close();
  return { ...result, violations: 0 };
}
