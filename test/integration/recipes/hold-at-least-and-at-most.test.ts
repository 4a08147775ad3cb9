import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect } from 'vitest';
import {
  type AcquireOptions,
  BadOptionError,
  LeaseLostError,
  type Lock,
  LockBusyError,
  MultiLock,
  Mutex,
  ReadWriteLock,
  Semaphore,
  type ZkClient,
} from 'nestjs-zookeeper/recipes';
import { aborted, expire, useClients } from '../../support/clients.js';
import { nodesUnder, untilNothingLeft } from '../../support/recipe-nodes.js';
import { useServer } from '../../support/servers.js';
import { beforeEach, it } from '../../support/virtual-time.js';

const server = useServer();
const connect = useClients(server);

let path: string;
let client: ZkClient;
let other: ZkClient;
beforeEach(async () => {
  path = server.path('hold-at-least-and-at-most');
  [client, other] = await Promise.all([connect(), connect()]);
});

const recipes: [string, (client: ZkClient, path: string) => Lock, string][] = [
  ['mutex', (client, path) => new Mutex(client, path), ''],
  ['read lock', (client, path) => new ReadWriteLock(client, path).read, ''],
  ['semaphore', (client, path) => new Semaphore(client, path, { permits: 2 }), '/leases'],
];

/** Checks a duration. A timer may fire up to one millisecond early, and a request takes a few milliseconds. */
function expectDuration(since: number, milliseconds: number): void {
  const elapsed = performance.now() - since;
  expect(elapsed).toBeGreaterThan(milliseconds - 2);
  expect(elapsed).toBeLessThan(milliseconds + 20);
}

describe.each(recipes)('holdAtLeast on a %s', (_name, make, queue) => {
  it('keeps the node after an early release until that long after the grant', async () => {
    const lease = await make(client, path).acquire({ holdAtLeast: 500 });
    const granted = performance.now();
    await lease.release();
    expect(lease.held).toBe(false);
    expect(lease.signal.aborted).toBe(false);
    expect(await nodesUnder(client, path + queue)).toHaveLength(1);
    await expect.poll(() => nodesUnder(client, path + queue), { interval: 5 }).toHaveLength(0);
    expectDuration(granted, 500);
  });
});

describe('holdAtLeast', () => {
  it('blocks other callers, in this process too, and admits the next one when the time is over', async () => {
    const granted = performance.now();
    await new Mutex(client, path).withLock(() => undefined, { holdAtLeast: 1_500 });
    for (const zk of [client, other]) {
      await expect(new Mutex(zk, path).acquire({ wait: 0 })).rejects.toThrow(LockBusyError);
    }
    await Promise.all([client, other].map((zk) => new Mutex(zk, path).withLock(() => undefined)));
    expectDuration(granted, 1_500);
  });

  it('has no effect on a lock that was held for longer', async () => {
    const lease = await new Mutex(client, path).acquire({ holdAtLeast: 20 });
    await delay(25);
    await lease.release();
    expect(await nodesUnder(client, path)).toEqual([]);
  });

  it.each(['session', 'client', 'node'])('ends with its %s', async (what) => {
    const start = performance.now();
    await new Mutex(client, path).withLock(() => undefined, { holdAtLeast: 3_600_000 });
    const waiting = what === 'client' ? undefined : new Mutex(client, path).acquire();
    if (what === 'session') await expire(client, server);
    if (what === 'client') await client.close();
    if (what === 'node') await other.delete(`${path}/${(await nodesUnder(other, path))[0]}`);
    await (await waiting)?.release();
    await (await new Mutex(other, path).acquire()).release();
    expect(performance.now() - start).toBeLessThan(1000);
  });

  it('keeps all locks of a multi-lock, but none that was released because another was busy', async () => {
    const [a, b] = [server.path('multi-a'), server.path('multi-b')];
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
    const start = performance.now();
    const lease = await make(client, path).acquire({ holdAtMost: 60 });
    const reason = await aborted(lease.signal);
    expectDuration(start, 60);
    expect(reason).toBeInstanceOf(LeaseLostError);
    expect((reason as Error).message).toContain('holdAtMost');
    expect(lease.held).toBe(false);
    await untilNothingLeft(server, client, path + queue);
    await lease.release();
  });
});

describe('holdAtMost', () => {
  it('has freed the lock for a try from a listener of the signal', async () => {
    const mutex = new Mutex(client, path);
    const lease = await mutex.acquire({ holdAtMost: 50 });
    const tried = new Promise<Awaited<ReturnType<Mutex['tryAcquire']>>>((resolve) => {
      lease.signal.addEventListener('abort', () => resolve(mutex.tryAcquire()));
    });
    const next = await tried;
    expect(next?.held).toBe(true);
    await next!.release();
  });

  it('has no effect on a lease that was released before', async () => {
    const lease = await new Mutex(client, path).acquire({ holdAtMost: 30 });
    await lease.release();
    const next = await new Mutex(client, path).acquire();
    await delay(40);
    expect(lease.signal.aborted).toBe(false);
    expect(next.held).toBe(true);
    await next.release();
  });

  it('of a re-entry does not limit the outer lease', async () => {
    const mutex = new Mutex(client, path);
    await mutex.withLock(async (outer) => {
      for (const lock of [mutex, new MultiLock([mutex])]) {
        await lock.withLock(() => undefined, { holdAtMost: 10 });
      }
      await delay(50);
      expect(outer.held).toBe(true);
    });
  });

  it('may be as long as a timer can be, or infinite', async () => {
    const tooLong = new Mutex(client, path).acquire({ holdAtMost: 2 ** 31 });
    await expect(tooLong).rejects.toThrow('1 to 2147483647 milliseconds, or Infinity');
    for (const holdAtMost of [2 ** 31 - 1, Infinity]) {
      const lease = await new Mutex(client, server.path('long')).acquire({ holdAtMost });
      await delay(600_000);
      expect(lease.held).toBe(true);
      await lease.release();
    }
  });

  it('ends a multi-lock as a whole, and all leases of acquireEach() that are still held', async () => {
    const [a, b, c] = [server.path('a'), server.path('b'), server.path('c')];
    const multi = new MultiLock([new Mutex(client, a), new Mutex(client, b)]);
    const lease = await multi.acquire({ holdAtMost: 40 });
    expect(await aborted(lease.signal)).toBeInstanceOf(LeaseLostError);
    await lease.release();
    const semaphore = new Semaphore(client, c, { permits: 2 });
    const [first, second] = await semaphore.acquireEach({ count: 2, holdAtMost: 40 });
    await first!.release();
    await aborted(second!.signal);
    expect(first!.signal.aborted).toBe(false);
    await untilNothingLeft(server, client, a, b, `${c}/leases`);
  });
});

describe('invalid holdAtLeast and holdAtMost', () => {
  it.each<AcquireOptions>([
    { holdAtLeast: -1 },
    { holdAtLeast: Number.NaN },
    { holdAtLeast: 2 ** 31 },
    { holdAtLeast: '5' as unknown as number },
    { holdAtMost: 0 },
    { holdAtMost: Number.NaN },
    { holdAtMost: null as unknown as number },
    { holdAtLeast: 20, holdAtMost: 10 },
  ])('%o are rejected by every lock before any request is sent', async (options) => {
    const locks = recipes.map(([, make]) => make(client, path));
    for (const lock of [...locks, new MultiLock([locks[0]!])]) {
      await expect(lock.acquire(options)).rejects.toThrow(BadOptionError);
    }
    expect(await client.exists(path)).toBeUndefined();
  });
});
