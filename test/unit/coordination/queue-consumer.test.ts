import { expect, it } from 'vitest';
import {
  ConnectionError,
  NodeError,
  type Session,
  type Stat,
  type ZkClient,
} from '../../../lib/client/index.js';
import { FreeItems } from '../../../lib/coordination/recipes/internals/free-items.js';
import { ItemLock } from '../../../lib/coordination/recipes/internals/item-lock.js';
import { backOff } from '../../../lib/coordination/recipes/internals/refused-requests.js';

const PATHS = { lock: '/queue-locks/queue-0', item: '/queue/queue-0' };
const QUEUE = {
  path: '/queue',
  lockPath: '/queue-locks',
  prioritized: false,
  itemsIn: (children: readonly string[]) => [...children],
  ensurePaths: () => Promise.resolve(),
};

const NO_REPLY = { getAfter: () => new Promise<never>(() => {}) };
const acquire = (session: object) =>
  ItemLock.acquire({} as ZkClient, { ...NO_REPLY, ...session } as unknown as Session, PATHS);

it('a lock that was released is not watched', async () => {
  let reads = 0;
  const session = {
    alive: true,
    onUntrusted: () => () => {},
    create: () => Promise.resolve(PATHS.lock),
    delete: () => Promise.resolve(),
    get: () => new Promise<never>(() => void reads++),
  };
  const lock = await acquire(session);
  await lock!.release();
  lock!.watchNodes();
  expect(reads).toBe(0);
});

it('the watches of a consumer are removed if their replies come after its close', async () => {
  let watches = 0;
  const addWatch = () => {
    watches++;
    return { fired: new Promise<never>(() => {}), remove: () => void watches-- };
  };
  let reply!: () => void;
  const replied = new Promise<void>((resolve) => (reply = resolve));
  const session = {
    // The lock of the item exists.
    children: async (path: string) => ({
      children: ['queue-0'],
      watch: path === QUEUE.path ? addWatch() : undefined,
    }),
    exists: () => replied.then(() => ({ stat: {}, watch: addWatch() })),
  };
  const neverTaken = () => false;
  const items = new FreeItems(QUEUE, neverTaken, () => {});
  const taken = items.take(session as unknown as Session);
  await new Promise(setImmediate);
  expect(watches).toBe(1);
  items.close();
  reply();
  expect(await taken).toBeUndefined();
  expect(watches).toBe(0);
});

it('a consumer claims its lock after a lost reply, if the repetition of the create was not sent', async () => {
  const errors = [
    new ConnectionError('the reply was lost', { maybeApplied: true }),
    new ConnectionError('not sent'),
    new NodeError('NODE_EXISTS', PATHS.lock, -110, 'create'),
  ];
  let data: Uint8Array | undefined;
  const session = {
    alive: true,
    connected: true,
    onUntrusted: () => () => {},
    create: (_: string, id: Uint8Array) => {
      data = id;
      return Promise.reject(errors.shift()!);
    },
    sync: () => Promise.resolve(),
    get: () => Promise.resolve({ data }),
  };
  const lock = await acquire(session);
  expect(lock).toBeInstanceOf(ItemLock);
  expect(errors).toEqual([]);
});

it('a lock whose deletion with the item got no reply is not deleted again: another consumer may have it', async () => {
  const requests: string[] = [];
  const session = {
    alive: true,
    connected: true,
    trusted: true,
    onUntrusted: () => () => {},
    create: () => Promise.resolve(PATHS.lock),
    transaction: () =>
      Promise.reject(new ConnectionError('the reply was lost', { maybeApplied: true })),
    sync: () => Promise.resolve(),
    exists: () => Promise.resolve(),
    get: () => Promise.resolve({ data: Buffer.from('the id of another consumer') }),
    delete: (path: string) => Promise.resolve(requests.push(path)),
  };
  const lock = await acquire(session);
  await lock!.deleteItem({ czxid: 5 } as Stat);
  await lock!.release();
  expect(requests).toEqual([]);
});

it('the delay of a consumer doubles up to a minute, or up to a longer retryDelay', () => {
  const delays = (retryDelay: number) => [1, 2, 7, 50].map((failed) => backOff(retryDelay, failed));
  expect(delays(1_000)).toEqual([1_000, 2_000, 60_000, 60_000]);
  expect(delays(300_000)).toEqual([300_000, 300_000, 300_000, 300_000]);
});
