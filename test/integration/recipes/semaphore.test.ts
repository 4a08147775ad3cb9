import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, vi } from 'vitest';
import {
  BadOptionError,
  ConnectionError,
  RecipeConflictError,
  type Lease,
  LeaseLostError,
  type Lock,
  LockBusyError,
  LockTimeoutError,
  Mutex,
  NodeError,
  NonReentrantMutex,
  Semaphore,
  SharedCount,
  WaitCancelledError,
  type ZkClient,
} from 'nestjs-zookeeper/recipes';
import { Session } from '../../../lib/client/session.js';
import { aborted, expire, useClients, useLinks } from '../../support/clients.js';
import { isSimulated } from '../../support/environment.js';
import {
  failureOf,
  nodesUnder,
  untilNothingLeft,
  observed,
  untilNodes,
} from '../../support/recipe-nodes.js';
import { useServer } from '../../support/servers.js';
import { afterEach, beforeEach, it } from '../../support/virtual-time.js';

const server = useServer();
const newLink = useLinks(server);
const connect = useClients(server);

let path: string;
let client: ZkClient;
let other: ZkClient;
beforeEach(async () => {
  path = server.path('semaphore');
  [client, other] = await Promise.all([connect(), connect()]);
});

const queues = (path: string) => [`${path}/locks`, `${path}/leases`];
/** Every test leaves neither znodes nor watches. */
afterEach(async () => untilNothingLeft(server, await connect(), ...queues(path)));
const releaseAll = (leases: readonly Lease[]) =>
  Promise.all(leases.map((lease) => lease.release()));

/** Resolves when a request has created its lease nodes, so that there are `leases` of them, and waits. */
const asking = async (client: ZkClient, path: string, leases: number) => {
  await untilNodes(client, `${path}/locks`, 1);
  await untilNodes(client, `${path}/leases`, leases);
};

/** Creates a node as another client does. */
const nodeUnder = (client: ZkClient, parent: string, name: string, data = '') =>
  client.create(`${parent}/${name}`, data, { mode: 'ephemeral-sequential' });

describe('Semaphore', () => {
  it('names its nodes as Curator does', async () => {
    const semaphore = new Semaphore(client, path, { permits: 2 });
    const lease = await semaphore.acquire({ count: 2 });
    await untilNodes(client, `${path}/locks`, 0);
    const name = expect.stringMatching(
      /^_c_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}-lease-\d{10}$/,
    );
    expect(await nodesUnder(client, `${path}/leases`)).toEqual([name, name]);
    // Without a caller at the head of the queue, the directory may be reaped.
    const waiting = semaphore.acquire();
    await asking(client, path, 3);
    expect(await nodesUnder(client, path)).toEqual(['leases', 'locks']);
    await lease.release();
    await (await waiting).release();
  });

  it('grants in the order of arrival, with one watch for each waiter behind the first, which new waiters do not trigger', async () => {
    const [holder, ...clients] = await Promise.all(Array.from({ length: 5 }, () => connect()));
    const held = await new Semaphore(holder!, path, { permits: 1 }).acquire();
    await expect.poll(() => server.watchCount()).toBeGreaterThan(0);
    const order: number[] = [];
    const visits: Promise<void>[] = [];
    for (const [index, client] of clients.entries()) {
      const semaphore = new Semaphore(client, path, { permits: 1 });
      visits.push(semaphore.withLock(() => void order.push(index)));
      await untilNodes(holder!, `${path}/locks`, index + 1);
    }
    // The holder: its own node and the list of leases. The first waiter: its queue node and the
    // list of leases. One for each other waiter.
    await expect.poll(() => server.watchCount()).toBeLessThanOrEqual(2 + 2 + 3);
    await held.release();
    await Promise.all(visits);
    expect(order).toEqual([0, 1, 2, 3]);
  });

  it.runIf(isSimulated)('watches only its own node once it is granted', async () => {
    await using _lease = await new Semaphore(client, path, { permits: 2 }).acquire();
    // The nodes of shorter holds are not watched.
    await delay(60);
    expect(await server.watchCount()).toBe(1);
  });

  it('gives a call chain that holds a permit another permit when it acquires again', async () => {
    const semaphore = new Semaphore(client, path, { permits: 2 });
    await semaphore.withLock(async (outer) => {
      await semaphore.withLock(async (inner) => {
        expect(inner).not.toBe(outer);
        expect(await semaphore.available()).toBe(0);
        await expect(semaphore.withLock(() => 'third', { wait: 0 })).rejects.toThrow(LockBusyError);
      });
      expect(outer.held).toBe(true);
    });
  });
});

describe('several permits', () => {
  it('are granted all together or not at all, no smaller request overtakes, and are returned together', async () => {
    const [one, two, three] = await Promise.all([connect(), connect(), connect()]);
    const semaphores = [one, two, three].map(
      (client) => new Semaphore(client, path, { permits: 3 }),
    );
    const held = await semaphores[0]!.acquire({ count: 2 });
    expect(await semaphores[1]!.available()).toBe(1);
    const large = observed(semaphores[1]!.acquire({ count: 2 }));
    await asking(one, path, 4);
    await expect(semaphores[2]!.acquire({ wait: 0 })).rejects.toThrow(LockBusyError);
    const small = observed(semaphores[2]!.acquire());
    await untilNodes(one, `${path}/locks`, 2);
    expect([large.settled, small.settled]).toEqual([false, false]);
    await held.release();
    await releaseAll([await large.promise, await small.promise]);
    expect(await semaphores[0]!.available()).toBe(3);
  });

  it('cost one listing with their creates and one with a watch, however many they are', async () => {
    const listed = vi.spyOn(Session.prototype, 'children');
    const lease = await new Semaphore(client, path, { permits: 50 }).acquire({ count: 50 });
    const listings = listed.mock.calls.filter(([parent]) => parent === `${path}/leases`);
    listed.mockRestore();
    // Once more, because the first creates failed without a parent.
    expect(listings.length).toBeLessThanOrEqual(3);
    expect(await nodesUnder(client, `${path}/leases`)).toHaveLength(50);
    await lease.release();
  });

  it('leave no node when one of their creates fails, another is not answered and a third is', async () => {
    const semaphore = new Semaphore(client, path, { permits: 3 });
    await (await semaphore.acquire()).release();
    const { create } = Session.prototype;
    let nth = 0;
    const creating = vi.spyOn(Session.prototype, 'create').mockImplementation(async function (
      this: Session,
      ...args: Parameters<typeof create>
    ) {
      if (args[0].includes('-lease-') && ++nth === 2) {
        throw new NodeError('INVALID_ACL', args[0], -114, 'create');
      }
      const created = await create.apply(this, args);
      if (nth === 3 && created.endsWith('2'))
        throw new ConnectionError('no reply', { maybeApplied: true });
      return created;
    });
    await expect(semaphore.acquire({ count: 3 })).rejects.toMatchObject({ code: 'INVALID_ACL' });
    creating.mockRestore();
    expect(nth).toBe(3);
  });

  it('from acquireEach() are returned one by one', async () => {
    const [one, two] = await Promise.all([connect(), connect()]);
    const semaphore = new Semaphore(one, path, { permits: 3, key: 'beds' });
    const other = new Semaphore(two, path, { permits: 3 });
    const leases = await semaphore.acquireEach({ count: 3 });
    expect(leases.map(({ key }) => key)).toEqual(['beds', 'beds', 'beds']);
    const waiting = other.acquire({ count: 2 });
    await asking(one, path, 5);
    await leases[1]!.release();
    expect(leases.map(({ held }) => held)).toEqual([true, false, true]);
    await untilNodes(one, `${path}/leases`, 4);
    await leases[2]!.release();
    await (await waiting).release();
    expect(leases[0]!.held).toBe(true);
    await leases[0]!.release();
  });

  it('from acquireEach() are granted all or none, and bad options are rejected', async () => {
    const semaphore = new Semaphore(client, path, { permits: 2 });
    const held = await semaphore.acquire();
    await expect(semaphore.acquireEach({ count: 2, wait: 30 })).rejects.toThrow(LockTimeoutError);
    await untilNodes(client, `${path}/leases`, 1);
    await expect(semaphore.acquireEach({ count: 3 })).rejects.toThrow(BadOptionError);
    await held.release();
  });

  it('are lost together when one of their nodes is deleted', async () => {
    const lease = await new Semaphore(client, path, { permits: 3 }).acquire({ count: 2 });
    const [node] = await nodesUnder(client, `${path}/leases`);
    await client.delete(`${path}/leases/${node}`);
    expect(await aborted(lease.signal)).toBeInstanceOf(LeaseLostError);
  });
});

describe('the number of permits', () => {
  it('of an acquire must be a whole number up to the total, or it is rejected before any request is sent', async () => {
    const semaphore = new Semaphore(client, path, { permits: 3 });
    for (const bad of [0, -1, 1.5, Number.NaN, Infinity, 4, 2 ** 53, '2', null]) {
      const count = bad as number;
      const error = await failureOf(semaphore.acquire({ count }));
      expect(error).toBeInstanceOf(BadOptionError);
      expect(error).toMatchObject({ option: 'count' });
      await expect(semaphore.tryAcquire({ count })).rejects.toThrow(BadOptionError);
    }
    expect(await client.exists(path)).toBeUndefined();
  });

  it('is rejected when this process already uses another number', async () => {
    const lease = await new Semaphore(client, path, { permits: 3 }).acquire();
    const error = await failureOf(new Semaphore(client, path, { permits: 4 }).acquire());
    expect(error).toBeInstanceOf(BadOptionError);
    expect((error as Error).message).toContain('3 that this process uses, but is 4');
    const shared = new SharedCount(client, `${path}-count`);
    await expect(new Semaphore(client, path, { permits: shared }).acquire()).rejects.toThrow(
      BadOptionError,
    );
    await lease.release();
    // The number is no longer used, so it may change now.
    await (await new Semaphore(client, path, { permits: 4 }).acquire({ wait: 0 })).release();
    const leases = await new Semaphore(client, path, { permits: 2 }).acquireEach({ count: 2 });
    const late = new Semaphore(client, path, { permits: 2 }).acquireEach({ count: 2, wait: 30 });
    await expect(late).rejects.toThrow(LockTimeoutError);
    await Promise.all(leases.map((each) => each.release()));
    await (await new Semaphore(client, path, { permits: 3 }).acquire({ wait: 0 })).release();
  });

  it('is rejected when another process uses another number, and is not read from nodes of other clients', async () => {
    const [one, two] = await Promise.all([connect(), connect()]);
    await one.ensureContainers(`${path}/leases`);
    // Servers list children in no order: with several of them, one comes before our lease.
    const foreign = ['10.0.0.7', '', '{"permits":"many"}', 'null', '17', '__REVOKE__'];
    const theirs = await Promise.all(
      foreign.map((data, index) => nodeUnder(one, `${path}/leases`, `_c_${index}-lease-`, data)),
    );
    const permits = foreign.length + 2;
    const semaphore = new Semaphore(one, path, { permits });
    const lease = await semaphore.acquire({ wait: 0 });
    expect(await semaphore.available()).toBe(1);
    const other = new Semaphore(two, path, { permits: permits + 1 });
    const error = await failureOf(other.acquire());
    expect(error).toBeInstanceOf(BadOptionError);
    expect((error as Error).message).toMatch(/8 that process \d+ on .+ uses/);
    await untilNodes(one, `${path}/leases`, foreign.length + 1);
    await Promise.all(theirs.map((node) => one.delete(node)));
    await lease.release();
  });
});

describe('permits whose number is shared in a znode', () => {
  it('are as many as the znode contains, a lower number revokes none, and 0 blocks every caller until it is raised', async () => {
    const permits = new SharedCount(client, `${path}-count`);
    await permits.set(2);
    const semaphore = new Semaphore(client, path, { permits });
    const leases = [await semaphore.acquire({ wait: 0 }), await semaphore.acquire({ wait: 0 })];
    expect(await semaphore.tryAcquire()).toBeUndefined();
    await permits.set(1);
    expect(leases.every(({ held }) => held)).toBe(true);
    expect(await semaphore.available()).toBe(0);
    await leases[0]!.release();
    expect(await semaphore.tryAcquire()).toBeUndefined();
    await leases[1]!.release();
    await (await semaphore.acquire({ wait: 0 })).release();
    await permits.set(0);
    expect(await semaphore.tryAcquire()).toBeUndefined();
    const waiting = semaphore.acquire();
    await asking(client, path, 1);
    await permits.set(1);
    await (await waiting).release();
    // The native transport has a watch on it, and cannot remove watches.
    await client.delete(`${path}-count`);
  });

  it('are an error when the znode is missing or has another format', async () => {
    const permits = new SharedCount(client, `${path}-count`);
    const semaphore = new Semaphore(client, path, { permits });
    await expect(semaphore.acquire()).rejects.toThrow(BadOptionError);
    await expect(semaphore.tryAcquire()).rejects.toThrow(BadOptionError);
    await expect(semaphore.available()).rejects.toThrow(BadOptionError);
    await client.create(`${path}-count`, 'seven');
    await expect(semaphore.acquire()).rejects.toThrow(RecipeConflictError);
    await client.delete(`${path}-count`);
  });

  it('end a wait when their znode is deleted, and leave no watch', async () => {
    const permits = new SharedCount(client, `${path}-count`);
    await permits.set(1);
    const semaphore = new Semaphore(client, path, { permits });
    const held = await semaphore.acquire();
    const waiting = failureOf(semaphore.acquire());
    await asking(client, path, 2);
    await client.delete(`${path}-count`);
    expect(await waiting).toBeInstanceOf(BadOptionError);
    await held.release();
  });
});

describe('SharedCount', () => {
  it('stores four bytes, big-endian, as Curator does, and reads them without a watch', async () => {
    const count = new SharedCount(client, `${path}/deep`);
    expect(await count.get()).toBeUndefined();
    await count.set(258);
    expect((await client.get(`${path}/deep`)).data.toString('hex')).toBe('00000102');
    await new Semaphore(client, `${path}-semaphore`, { permits: count }).available();
    await count.set(-2);
    expect((await count.get())?.value).toBe(-2);
    expect(await server.watchCount()).toBe(0);
  });

  it('lets one of two writers that read the same version set it', async () => {
    const count = new SharedCount(client, path);
    await count.set(1);
    const { version } = (await count.get())!;
    const results = await Promise.all([count.trySet(2, version), count.trySet(3, version)]);
    expect(results).toEqual([true, false]);
    expect(await count.get()).toEqual({ value: 2, version: version + 1 });
  });

  it('is created once when two clients set it first', async () => {
    const counts = (await Promise.all([connect(), connect()])).map(
      (client) => new SharedCount(client, `${path}/count`),
    );
    await Promise.all(counts.map((count) => count.set(1)));
    expect((await counts[0]!.get())?.value).toBe(1);
  });

  it('rejects other numbers than 32-bit integers', async () => {
    const count = new SharedCount(await connect(), server.path('bad'));
    for (const value of [1.5, 2 ** 31, -(2 ** 31), Number.NaN, '1', undefined] as number[]) {
      await expect(count.set(value)).rejects.toThrow(BadOptionError);
      await expect(count.trySet(value, 0)).rejects.toThrow(BadOptionError);
    }
  });
});

describe('tryAcquire() of a permit', () => {
  it.each([
    ['fewer', 12],
    ['more', 5],
  ])('called %s often than there are permits succeeds once for each permit', async (_, permits) => {
    const clients = await Promise.all(Array.from({ length: 4 }, () => connect()));
    const tries = clients.flatMap((client) =>
      Array.from({ length: 3 }, () => new Semaphore(client, path, { permits }).tryAcquire()),
    );
    const leases = (await Promise.all(tries)).filter((lease) => lease !== undefined);
    expect(leases).toHaveLength(permits);
    expect(leases.every(({ held }) => held)).toBe(true);
    await releaseAll(leases);
  });

  it.runIf(isSimulated).each<[string, (client: ZkClient, path: string) => Lock]>([
    ['semaphore', (client, path) => new Semaphore(client, path, { permits: 2 })],
    ['non-reentrant mutex', (client, path) => new NonReentrantMutex(client, path)],
  ])('of a %s succeeds over a slow network, also behind another one', async (_name, make) => {
    const link = await newLink({ latency: 20 });
    const [client, near] = await Promise.all([
      connect({ connectString: link.connectString }),
      connect(),
    ]);
    await (await make(client, path).tryAcquire())!.release();

    // Another caller is at the head of the queue and acquires nothing.
    const door = await new Mutex(near, `${path}/locks`).acquire();
    const waiting = observed(make(client, path).tryAcquire());
    await untilNodes(near, `${path}/locks`, 2);
    const [own] = (await nodesUnder(near, `${path}/locks`)).slice(-1);
    // Two round trips of the try.
    await delay(100);
    expect(waiting.settled).toBe(false);
    expect((await nodesUnder(near, `${path}/locks`)).at(-1)).toBe(own);
    await door.release();
    await (await waiting.promise)!.release();
  });

  it('fails as soon as no permit is left, even after it entered the queue', async () => {
    const door = await new Mutex(other, `${path}/locks`).acquire();
    await other.create(`${path}/leases`);
    const waiting = new Semaphore(client, path, { permits: 1 }).tryAcquire();
    await untilNodes(other, `${path}/locks`, 2);
    const lease = await nodeUnder(other, `${path}/leases`, '_c_x-lease-');
    expect(await waiting).toBeUndefined();
    await untilNodes(other, `${path}/locks`, 1);
    await other.delete(lease);
    await door.release();
  });

  it('fails at once when no permit is left, and leaves nothing behind', async () => {
    const held = await new Semaphore(client, path, { permits: 2 }).acquire({ count: 2 });
    const semaphore = new Semaphore(other, path, { permits: 2, key: 'beds' });
    expect(await semaphore.tryAcquire()).toBeUndefined();
    expect(await failureOf(semaphore.acquire({ wait: 0 }))).toMatchObject({
      code: 'BUSY',
      key: 'beds',
      message: 'too few permits of semaphore "beds" are free; set wait above 0 to queue for them',
    });
    await untilNodes(client, `${path}/leases`, 2);
    await held.release();
  });
});

describe('waiting for a permit', () => {
  it('times out at the deadline and leaves neither node nor watch', async () => {
    const held = await new Semaphore(client, path, { permits: 1 }).acquire();
    const semaphore = new Semaphore(other, path, { permits: 1, key: 'beds' });
    const [first, behind] = await Promise.all([
      failureOf(semaphore.acquire({ wait: 60 })),
      failureOf(semaphore.acquire({ wait: 40 })),
    ]);
    expect(first).toBeInstanceOf(LockTimeoutError);
    expect(behind).toBeInstanceOf(LockTimeoutError);
    expect(first).toMatchObject({
      code: 'TIMEOUT',
      key: 'beds',
      message:
        'no permit of semaphore "beds" was granted within 60 ms; participants() lists the holders',
    });
    await untilNodes(client, `${path}/leases`, 1);
    await held.release();
  });

  it('rejects when the signal aborts and leaves neither node nor watch', async () => {
    const held = await new Semaphore(client, path, { permits: 2 }).acquire();
    const controller = new AbortController();
    const { signal } = controller;
    const semaphore = new Semaphore(other, path, { permits: 2 });
    const waiting = semaphore.acquire({ count: 2, signal });
    const next = semaphore.acquire();
    await asking(client, path, 3);
    controller.abort();
    const error = await failureOf(waiting);
    expect(error).toBeInstanceOf(WaitCancelledError);
    expect((error as Error).message).toContain(`wait for semaphore "${path}"`);
    await (await next).release();
    await held.release();
    await untilNothingLeft(server, client, ...queues(path));
    const fresh = new Semaphore(other, `${path}-2`, { permits: 1 });
    await expect(fresh.acquire({ signal })).rejects.toThrow(WaitCancelledError);
    await expect(fresh.acquireEach({ signal })).rejects.toThrow(WaitCancelledError);
    expect(await other.exists(`${path}-2`)).toBeUndefined();
  });

  it.each(['locks', 'leases'])('queues again when its node under %s is deleted', async (queue) => {
    const held = await new Semaphore(client, path, { permits: 1 }).acquire();
    const before = await nodesUnder(client, `${path}/${queue}`);
    const waiting = new Semaphore(other, path, { permits: 1 }).acquire();
    await asking(client, path, 2);
    const after = await nodesUnder(client, `${path}/${queue}`);
    const made = after.find((name) => !before.includes(name))!;
    await client.delete(`${path}/${queue}/${made}`);
    await expect
      .poll(async () => {
        const now = await nodesUnder(client, `${path}/${queue}`);
        return now.length === after.length && !now.includes(made);
      })
      .toBe(true);
    await held.release();
    await (await waiting).release();
  });
});

describe('a session that ends', () => {
  it('is granted nothing, even between the last two replies', async () => {
    const before = await client.session();
    const { children } = client;
    let looks = 0;
    client.children = async (...args) => {
      const answer = await children.apply(client, args);
      if (args[0] === path && ++looks === 2) {
        await expire(client, server);
        await expect.poll(() => before.alive).toBe(false);
      }
      return answer;
    };
    await client.ensureContainers(path);
    const lease = await new Semaphore(client, path, { permits: 1 }).acquire();
    const after = await client.session();
    const [node, ...others] = await nodesUnder(client, `${path}/leases`);
    expect(others).toEqual([]);
    const stat = await client.exists(`${path}/leases/${node}`);
    expect(stat?.ephemeralOwner).toBe(after.id);
    expect(lease.held).toBe(true);
    await lease.release();
  });
});
