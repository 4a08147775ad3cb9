import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect } from 'vitest';
import {
  RecipeConflictError,
  type Lease,
  type Lock,
  Mutex,
  NonReentrantMutex,
  ReadWriteLock,
  Semaphore,
  type ZkClient,
} from 'nestjs-zookeeper/recipes';
import { useClients } from '../../support/clients.js';
import { failureOf, nodesUnder } from '../../support/recipe-nodes.js';
import { serverHas, useServer } from '../../support/servers.js';
import { it } from '../../support/virtual-time.js';

const server = useServer();
const connect = useClients(server);

const makers: Record<string, (client: ZkClient, path: string) => Lock> = {
  mutex: (client, path) => new Mutex(client, path),
  'read lock': (client, path) => new ReadWriteLock(client, path).read,
  'write lock': (client, path) => new ReadWriteLock(client, path).write,
  semaphore: (client, path) => new Semaphore(client, path, { permits: 1 }),
  'non-reentrant mutex': (client, path) => new NonReentrantMutex(client, path),
};

/** Recipes with the same znode layout, which exclude each other. */
const layouts = [['mutex'], ['read lock', 'write lock'], ['semaphore', 'non-reentrant mutex']];
const pairs = Object.keys(makers).flatMap((first) =>
  Object.keys(makers)
    .filter((second) => !layouts.some((one) => one.includes(first) && one.includes(second)))
    .map((second) => [first, second] as const),
);

async function everythingUnder(client: ZkClient, path: string): Promise<string[]> {
  const children = await nodesUnder(client, path);
  const below = await Promise.all(
    children.map((child) => everythingUnder(client, `${path}/${child}`)),
  );
  // Sequential nodes only: an emptied container among them is reaped.
  return [
    ...children.map((child) => `${path}/${child}`).filter((node) => /\d{10}$/.test(node)),
    ...below.flat(),
  ];
}

describe('a path that one recipe uses', () => {
  it.each(pairs)(
    'by a %s is rejected by a %s, which leaves nothing on it',
    async (first, second) => {
      const path = server.path('mismatch');
      const [client, other] = await Promise.all([connect(), connect()]);
      const lease = await makers[first]!(client, path).acquire();
      // The queue of a semaphore is empty once the permit is granted.
      await expect.poll(() => everythingUnder(client, path)).toHaveLength(1);
      const before = await everythingUnder(client, path);
      for (const zk of [client, other]) {
        const lock = makers[second]!(zk, path);
        const error = await failureOf(lock.acquire());
        expect(error).toBeInstanceOf(RecipeConflictError);
        expect((error as Error).message).toContain(path);
        await expect(lock.tryAcquire()).rejects.toThrow(RecipeConflictError);
        await expect(lock.participants()).rejects.toThrow(RecipeConflictError);
      }
      await expect.poll(() => everythingUnder(client, path)).toEqual(before);
      expect(lease.held).toBe(true);
      await lease.release();
    },
  );

  it.each(['__lock__', 'x__lock__', '__rlock__', 'latch-', '_c_x-latch-'])(
    'by a %s of another library is rejected by all of our recipes',
    async (marker) => {
      const path = server.path('foreign');
      const client = await connect();
      await client.ensureContainers(path);
      await client.create(`${path}/${marker}`, '', { mode: 'ephemeral-sequential' });
      const before = await everythingUnder(client, path);
      for (const make of Object.values(makers)) {
        await expect(make(client, path).acquire()).rejects.toThrow(RecipeConflictError);
      }
      await expect.poll(() => everythingUnder(client, path)).toEqual(before);
    },
  );
});

describe('two recipes that start on a fresh path at the same time', () => {
  const semaphores = pairs.filter(([first]) => layouts[2]!.includes(first));

  it.each(semaphores)(
    'are not both granted: a %s reads the path before a %s acquires',
    async (first, second) => {
      const path = server.path('after-the-look');
      const [client, other] = await Promise.all([connect(), connect()]);
      const { children } = client;
      let lease: Lease | undefined;
      // The first one finds an empty path. The second one arrives before the first has created
      // anything.
      client.children = async (...args) => {
        client.children = children;
        try {
          return await client.children(...args);
        } finally {
          lease = await makers[second]!(other, path).acquire();
        }
      };
      const waits = makers[first]!(client, path).acquire();
      await expect(waits).rejects.toThrow(RecipeConflictError);
      expect(lease!.held).toBe(true);
      await lease!.release();
      await expect.poll(() => everythingUnder(other, path)).toEqual([]);
    },
  );

  it.each(pairs)('are not both granted: a %s and a %s', async (first, second) => {
    const [client, other] = await Promise.all([connect(), connect()]);
    // A message takes up to a millisecond, and each lock exchanges a few of them.
    for (const head of [0, 0, 0, 1, 1, 2, 2, 3]) {
      const path = server.path('same-time');
      const one = makers[first]!(client, path).acquire();
      if (head > 0) await delay(head);
      const results = await Promise.allSettled([one, makers[second]!(other, path).acquire()]);
      const leases = results.flatMap((result) =>
        result.status === 'fulfilled' ? [result.value] : [],
      );
      expect(leases.length).toBeLessThanOrEqual(1);
      for (const result of results) {
        if (result.status === 'rejected') expect(result.reason).toBeInstanceOf(RecipeConflictError);
      }
      for (const lease of leases) await lease.release();
      await expect.poll(() => everythingUnder(client, path)).toEqual([]);
    }
  });
});

it.runIf(serverHas.containers)(
  'a path that is no longer used is available to another recipe',
  async () => {
    const path = server.path('free-again');
    const client = await connect();
    await new Mutex(client, path).withLock(() => undefined);
    await new ReadWriteLock(client, path).write.withLock(() => undefined);
    await new Semaphore(client, path, { permits: 1 }).withLock(() => undefined);
    // Its two directories are containers, and are reaped when they are empty.
    await expect.poll(() => nodesUnder(client, path)).toEqual([]);
    await new Mutex(client, path).withLock(() => undefined);
  },
);
