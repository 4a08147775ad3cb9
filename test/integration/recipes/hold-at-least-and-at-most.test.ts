import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import {
  type AcquireOptions,
  BadOptionError,
  LeaseLostError,
  type Lock,
  LockBusyError,
  MultiLock,
  Mutex,
  NonReentrantMutex,
  ReadWriteLock,
  Semaphore,
  type ZkClient,
} from 'nestjs-zookeeper/recipes';
import { aborted, expire, useClients } from '../../support/clients.js';
import { nodesUnder, untilNothingLeft, observed } from '../../support/recipe-nodes.js';
import { useServer } from '../../support/servers.js';

const server = useServer();
const connect = useClients(server);

const recipes: [string, (client: ZkClient, path: string) => Lock, string][] = [
  ['mutex', (client, path) => new Mutex(client, path), ''],
  ['read lock', (client, path) => new ReadWriteLock(client, path).read, ''],
  ['write lock', (client, path) => new ReadWriteLock(client, path).write, ''],
  ['semaphore', (client, path) => new Semaphore(client, path, { permits: 2 }), '/leases'],
  ['non-reentrant mutex', (client, path) => new NonReentrantMutex(client, path), '/leases'],
];

describe.each(recipes)('holdAtLeast on a %s', (_name, make, queue) => {
  it('keeps the node after an early release until that long after the grant', async () => {
    const path = server.path('at-least');
    const client = await connect();
    const lease = await make(client, path).acquire({ holdAtLeast: 500 });
    const granted = performance.now();
    await lease.release();
    expect(lease.held).toBe(false);
    expect(lease.signal.aborted).toBe(false);
    expect(await nodesUnder(client, path + queue)).toHaveLength(1);
    await expect.poll(() => nodesUnder(client, path + queue), { interval: 5 }).toHaveLength(0);
    expect(performance.now() - granted).toBeGreaterThanOrEqual(495);
    await untilNothingLeft(server, client, path + queue);
  });
});

describe('holdAtLeast', () => {
  it('blocks other callers, in this process too, and admits the next one when the time is over', async () => {
    const path = server.path('others');
    const [client, other] = await Promise.all([connect(), connect()]);
    const granted = performance.now();
    await new Mutex(client, path).withLock(() => undefined, { holdAtLeast: 1_500 });
    for (const zk of [client, other]) {
      await expect(new Mutex(zk, path).acquire({ wait: 0 })).rejects.toThrow(LockBusyError);
    }
    await Promise.all([client, other].map((zk) => new Mutex(zk, path).withLock(() => undefined)));
    expect(performance.now() - granted).toBeGreaterThanOrEqual(1_495);
  });

  it('has no effect on a lock that was held for longer', async () => {
    const path = server.path('longer');
    const client = await connect();
    const lease = await new Mutex(client, path).acquire({ holdAtLeast: 20 });
    await delay(25);
    await lease.release();
    expect(await nodesUnder(client, path)).toEqual([]);
  });

  it('ends with the session, also for waiters of the same process', async () => {
    const path = server.path('expired');
    const [client, other] = await Promise.all([connect(), connect()]);
    await new Mutex(client, path).withLock(() => undefined, { holdAtLeast: 3_600_000 });
    const waiting = new Mutex(client, path).acquire();
    await expire(client, server);
    await (await waiting).release();
    await (await new Mutex(other, path).acquire()).release();
  });

  it('ends with the client', async () => {
    const path = server.path('closed');
    const [client, other] = await Promise.all([connect(), connect()]);
    await new Mutex(client, path).withLock(() => undefined, { holdAtLeast: 3_600_000 });
    await client.close();
    await (await new Mutex(other, path).acquire({ wait: 60_000 })).release();
  });

  it('ends for every waiter when the node is deleted', async () => {
    const path = server.path('operator');
    const [client, operator] = await Promise.all([connect(), connect()]);
    await new Mutex(client, path).withLock(() => undefined, { holdAtLeast: 3_600_000 });
    const waiting = new Mutex(client, path).acquire();
    const [node] = await nodesUnder(operator, path);
    await operator.delete(`${path}/${node}`);
    await (await waiting).release();
    await untilNothingLeft(server, client, path);
  });

  it('keeps all locks of a multi-lock, but none that was released because another was busy', async () => {
    const [a, b] = [server.path('multi-a'), server.path('multi-b')];
    const [client, other] = await Promise.all([connect(), connect()]);
    const multi = new MultiLock([new Mutex(client, a), new Mutex(client, b)]);
    const held = await new Mutex(other, b).acquire();
    await expect(multi.acquire({ wait: 0, holdAtLeast: 3_600_000 })).rejects.toThrow(LockBusyError);
    await new Mutex(other, a).withLock(() => undefined, { wait: 60_000 });
    await held.release();
    await multi.withLock(() => undefined, { holdAtLeast: 1_500 });
    await expect(new Mutex(other, a).acquire({ wait: 0 })).rejects.toThrow(LockBusyError);
    await untilNothingLeft(server, client, a, b);
  });
});

describe.each(recipes)('holdAtMost on a %s', (_name, make, queue) => {
  it('ends the lease with a reason, and frees the lock', async () => {
    const path = server.path('at-most');
    const client = await connect();
    const start = performance.now();
    const lease = await make(client, path).acquire({ holdAtMost: 60 });
    const reason = await aborted(lease.signal);
    expect(performance.now() - start).toBeGreaterThanOrEqual(55);
    expect(reason).toBeInstanceOf(LeaseLostError);
    expect((reason as Error).message).toContain('holdAtMost');
    expect(lease.held).toBe(false);
    await untilNothingLeft(server, client, path + queue);
    await lease.release();
  });
});

describe('holdAtMost', () => {
  it('admits the next waiter while the holder hangs', async () => {
    const path = server.path('hangs');
    const [client, other] = await Promise.all([connect(), connect()]);
    let wake!: () => void;
    let inside!: Promise<unknown>;
    const entered = new Promise<void>((resolve) => {
      inside = new Mutex(client, path).withLock(
        () => {
          resolve();
          return new Promise<void>((finish) => (wake = finish));
        },
        { holdAtMost: 50 },
      );
    });
    await entered;
    const next = await new Mutex(other, path).acquire();
    wake();
    await inside;
    expect(next.held).toBe(true);
    await next.release();
  });

  it('has no effect on a lease that was released before', async () => {
    const path = server.path('in-time');
    const client = await connect();
    const lease = await new Mutex(client, path).acquire({ holdAtMost: 30 });
    await lease.release();
    const next = await new Mutex(client, path).acquire();
    await delay(40);
    expect(lease.signal.aborted).toBe(false);
    expect(next.held).toBe(true);
    await next.release();
  });

  it.each([2 ** 31, 2 ** 40, Number.MAX_VALUE, Infinity])(
    'of %d does not end at once',
    async (ms) => {
      const client = await connect();
      const lease = await new Mutex(client, server.path('long')).acquire({ holdAtMost: ms });
      await delay(10);
      expect(lease.held).toBe(true);
      await lease.release();
    },
  );

  it('ends a multi-lock as a whole', async () => {
    const [a, b] = [server.path('multi-a'), server.path('multi-b')];
    const client = await connect();
    const multi = new MultiLock([new Mutex(client, a), new Mutex(client, b)]);
    const lease = await multi.acquire({ holdAtMost: 40 });
    expect(await aborted(lease.signal)).toBeInstanceOf(LeaseLostError);
    await lease.release();
    await untilNothingLeft(server, client, a, b);
  });

  it('ends all leases of acquireEach() that are still held', async () => {
    const path = server.path('each');
    const client = await connect();
    const semaphore = new Semaphore(client, path, { permits: 2 });
    const [first, second] = await semaphore.acquireEach({ count: 2, holdAtMost: 40 });
    await first!.release();
    await aborted(second!.signal);
    expect(first!.signal.aborted).toBe(false);
    await untilNothingLeft(server, client, `${path}/leases`);
  });

  it('can be combined with holdAtLeast', async () => {
    const path = server.path('both');
    const client = await connect();
    const options = { holdAtLeast: 30, holdAtMost: 60 };
    const early = await new Mutex(client, path).acquire(options);
    await early.release();
    expect(await nodesUnder(client, path)).toHaveLength(1);
    const late = observed(new Mutex(client, path).acquire(options));
    expect(late.settled).toBe(false);
    await aborted((await late.promise).signal);
    await untilNothingLeft(server, client, path);
  });
});

describe('invalid holdAtLeast and holdAtMost', () => {
  const bad: AcquireOptions[] = [
    { holdAtLeast: -1 },
    { holdAtLeast: Number.NaN },
    { holdAtLeast: Infinity },
    { holdAtLeast: 2 ** 31 },
    { holdAtLeast: '5' as unknown as number },
    { holdAtMost: 0 },
    { holdAtMost: -5 },
    { holdAtMost: Number.NaN },
    { holdAtMost: null as unknown as number },
    { holdAtLeast: 20, holdAtMost: 10 },
  ];
  it.each(bad)('%o are rejected by every lock before any request is sent', async (options) => {
    const path = server.path('bad');
    const client = await connect();
    const locks = recipes.map(([, make]) => make(client, path));
    for (const lock of [...locks, new MultiLock([locks[0]!])]) {
      await expect(lock.acquire(options)).rejects.toThrow(BadOptionError);
      await expect(lock.withLock(() => 'never', options)).rejects.toThrow(BadOptionError);
    }
    expect(await client.exists(path)).toBeUndefined();
  });
});
