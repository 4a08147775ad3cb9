import { ALL_OURS, OURS } from './systems.mjs';

/** A number of keys may be more than that of those who use them. */
export const CALLERS = 64;
const COUNTS = [1, 10, 100, 1_000, 10_000];
const ZOOKEEPER_LOCKS = [...ALL_OURS, 'curator', 'kazoo'];
const LOCKS = [...ZOOKEEPER_LOCKS, 'redlock'];
const ALL = [...LOCKS, 'raw'];

/** One key that many want, with a prober beside them. */
const hot = (name, title, callers, more) => ({
  name,
  title,
  systems: LOCKS,
  load: { callers },
  probed: true,
  ...more,
});

/**
 * `load` is what drive.mjs takes; the rest of a case says who takes part (`systems`), in how many
 * processes of how many callers, how our locks are used (`mode`), whether a prober in another process
 * wants the same keys once in a while (`probed`), how many seconds it takes until all are at it
 * (`warmUp`), and for which numbers it is repeated (`counts` of `counted`).
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
  hot('hot-64', '64 callers, one key', CALLERS),
  hot('hot-64-strict', '64 callers, one key, strict', CALLERS, { mode: 'strict' }),
  hot('hot-256', '256 callers, one key', 256),
  hot('hot-1500', '1,500 callers, one key', 1_500, {
    // 1,500 threads of Python are busy with each other.
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
    systems: ZOOKEEPER_LOCKS,
    load: { callers: CALLERS },
    lock: 'read-write',
  },
  {
    name: 'leader-failover',
    title: 'from a resignation to the next of 3',
    systems: ZOOKEEPER_LOCKS,
    kind: 'elect',
    participants: 3,
  },
  {
    name: 'decorator',
    title: '@DistributedLock inside of its own lock',
    // The lock costs nothing: whatever server it is on, of those that are there.
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
    title: '64 callers at most, n keys',
    systems: [OURS],
    counted: 'keys',
    counts: COUNTS,
    warmUp: 2,
  },
];
