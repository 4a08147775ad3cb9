import { ALL_OURS, OURS, RAW_WIRE } from './limits.mjs';

/** The number of callers; there may be more keys than callers. */
export const CALLERS = 64;
const COUNTS = [1, 10, 100, 1_000, 10_000];
const ZOOKEEPER_LOCKS = [...ALL_OURS, 'curator', 'kazoo'];
const LOCKS = [...ZOOKEEPER_LOCKS, 'redlock'];
const ALL = [...LOCKS, 'raw', RAW_WIRE];

/** A case in which many callers contend for one key, with a prober. */
const hot = (name, title, callers, more) => ({
  name,
  title,
  systems: LOCKS,
  load: { callers },
  probed: true,
  ...more,
});

/**
 * The fields of a case: the options of drive.mjs (`load`), the systems, the number of processes, how locks of
 * this library are used (`mode`), whether a prober in another process requests the same keys now and then
 * (`probed`), whether the keys have no directories (`unprepared`), the warm-up in seconds (`warmUp`), and the numbers for which it is repeated (`counts` of
 * `counted`).
 */
export const CASES = [
  { name: 'uncontended', title: 'one caller, one key', systems: ALL, load: { callers: 1 } },
  {
    name: 'uncontended-linger',
    title: 'one caller, one key, lingering',
    systems: ALL,
    load: { callers: 1 },
    mode: 'linger',
    probed: true,
  },
  {
    name: 'uncontended-auto',
    title: "one caller, one key, linger: 'auto'",
    systems: ALL_OURS,
    load: { callers: 1 },
    mode: 'auto',
    probed: true,
  },
  ...['', '-auto'].map((mode) => ({
    name: `bursts${mode}`,
    title: `one caller, one key, about 20 ms between requests${mode && ", linger: 'auto'"}`,
    systems: ALL_OURS,
    load: { callers: 1, pace: 20 },
    mode: mode ? 'auto' : 'default',
    probed: true,
  })),
  hot('hot-64', '64 callers, one key', CALLERS),
  hot('hot-64-strict', '64 callers, one key, strict', CALLERS, { mode: 'strict' }),
  hot('hot-256', '256 callers, one key', 256),
  hot('hot-1500', '1,500 callers, one key', 1_500, {
    // 1,500 threads of Python mostly wait for each other.
    systems: LOCKS.filter((system) => system !== 'kazoo'),
    warmUp: 4,
  }),
  hot('hot-4-processes', '4 processes of 16 callers, one key', 16, { processes: 4 }),
  {
    name: 'keys-64',
    title: '64 callers, a key each',
    systems: ALL,
    load: { callers: CALLERS, keys: CALLERS },
  },
  {
    name: 'keys-64-linger',
    title: '64 callers, a key each, lingering',
    systems: ALL,
    load: { callers: CALLERS, keys: CALLERS },
    mode: 'linger',
    probed: true,
  },
  {
    name: 'keys-10000',
    title: '64 callers, 10,000 keys',
    systems: ALL,
    load: { callers: CALLERS, keys: 10_000 },
  },
  {
    name: 'orders',
    title: '4 processes of 64 callers, 100,000 keys by a Zipf law, 5 ms between requests',
    systems: LOCKS,
    load: { callers: CALLERS, keys: 100_000, pace: 5, zipf: 1 },
    processes: 4,
    probed: true,
    // The directory of a key is created when it is used for the first time.
    unprepared: true,
    warmUp: 2,
  },
  {
    name: 'semaphore-8-64',
    title: '64 callers, 8 permits',
    systems: ZOOKEEPER_LOCKS,
    load: { callers: CALLERS },
    lock: 'semaphore',
    permits: 8,
  },
  {
    name: 'read-64',
    title: '64 readers',
    systems: ZOOKEEPER_LOCKS,
    load: { callers: CALLERS },
    lock: 'read',
  },
  {
    name: 'read-write-1-9',
    title: '64 callers, 1 write for 9 reads',
    // In kazoo 2.8 a reader waits for a writer behind it, which waits for the reader (python-zk/kazoo issue 649).
    systems: ZOOKEEPER_LOCKS.filter((system) => system !== 'kazoo'),
    load: { callers: CALLERS },
    lock: 'read-write',
  },
  ...[1, CALLERS].map((callers) => ({
    name: `counter-${callers}`,
    title: callers === 1 ? 'one caller, one counter' : `${callers} callers, one counter`,
    systems: [...ALL_OURS, 'curator'],
    load: { callers },
    lock: 'counter',
  })),
  ...[1, CALLERS].map((callers) => ({
    name: `queue-${callers}`,
    title: `${callers === 1 ? 'one caller' : `${callers} callers`}, a put into a queue until its item is handled`,
    systems: [...ALL_OURS, 'curator'],
    load: { callers },
    lock: 'queue',
  })),
  {
    name: 'leader-failover',
    title: 'from a resignation to the next leader, of 3 participants',
    systems: ZOOKEEPER_LOCKS,
    kind: 'elect',
    participants: 3,
  },
  {
    name: 'cache',
    title: 'from a set to the event of a cache of 10,000 znodes',
    systems: [...ALL_OURS, 'curator'],
    kind: 'cache',
    znodes: 10_000,
  },
  {
    name: 'decorator',
    title: '@DistributedLock inside its own lock',
    // Re-entry needs no server, so any available one will do.
    systems: [OURS, 'ours (embedded)'],
    kind: 'decorator',
  },
  {
    name: 'memory-10000-waiters',
    title: '10,000 waiters on one key',
    systems: [...ALL_OURS, 'redlock'],
    kind: 'memory',
    waiters: 10_000,
  },
  {
    name: 'cost-by-waiters',
    title: 'n callers, one key',
    systems: [OURS],
    counted: 'callers',
    counts: COUNTS,
    warmUp: 2,
  },
  {
    name: 'cost-by-keys',
    title: 'at most 64 callers, n keys',
    systems: [OURS],
    counted: 'keys',
    counts: COUNTS,
    warmUp: 2,
  },
];

/** The largest numbers of a quick run. */
const QUICK = { callers: 16, keys: 100, znodes: 100, waiters: 100, processes: 2, count: 10 };
export const QUICKLY = `at most ${QUICK.callers} callers, ${QUICK.keys} keys and ${QUICK.processes} processes, and no warm-up`;

/** Returns a case with small numbers, so that it takes no longer than its processes need to start. */
export function quickly(spec) {
  const small = { ...spec, load: { ...spec.load }, warmUp: 0 };
  for (const name of ['znodes', 'waiters', 'processes']) {
    if (name in small) small[name] = Math.min(small[name], QUICK[name]);
  }
  for (const name of ['callers', 'keys']) {
    if (name in small.load) small.load[name] = Math.min(small.load[name], QUICK[name]);
  }
  if (small.counts) small.counts = small.counts.filter((count) => count <= QUICK.count);
  return small;
}
