import { describe, expect, it } from 'vitest';
import { LeaseLostError, LockTimeoutError, Mutex } from 'nestjs-zookeeper/recipes';
import { aborted, expire, nodesUnder, stateOf, useClients } from '../support/clients.js';
import { Link } from '../support/link.js';
import { useServer } from '../support/servers.js';

const server = useServer();
const connect = useClients(server);

describe('a session that expires', () => {
  it('ends the lease: the signal aborts with the reason, the next in line gets the lock', async () => {
    const path = server.path('expired');
    const [holder, other] = await Promise.all([connect(), connect()]);
    const lease = await new Mutex(holder, path).acquire();
    const waiting = new Mutex(other, path).acquire();
    await expire(holder, server);
    const next = await waiting;
    expect(await aborted(lease.signal)).toBeInstanceOf(LeaseLostError);
    expect(lease.held).toBe(false);
    expect(next.fencingToken).toBeGreaterThan(lease.fencingToken);
    await lease.release();
    expect(next.held).toBe(true);
    await next.release();
  });

  it('CURATOR-604, 696: leaves no grant on the node of the session before', async () => {
    const path = server.path('curator-604');
    const [holder, waiter] = await Promise.all([connect(), connect()]);
    const lease = await new Mutex(holder, path).acquire();
    const waiting = new Mutex(waiter, path).acquire();
    await expect.poll(async () => (await nodesUnder(holder, path)).length).toBe(2);
    const before = (await waiter.session()).id;
    await expire(waiter, server);
    await expect.poll(async () => (await waiter.session()).id).not.toBe(before);
    await lease.release();
    const granted = await waiting;
    const { children } = await holder.children(path);
    expect(children).toHaveLength(1);
    const { ephemeralOwner } = (await holder.exists(`${path}/${children[0]}`))!;
    expect(ephemeralOwner).toBe((await waiter.session()).id);
    await granted.release();
  });

  it('leaves a waiter only what remains of its wait', async () => {
    const path = server.path('remaining');
    const [holder, waiter] = await Promise.all([connect(), connect()]);
    const lease = await new Mutex(holder, path).acquire();
    const start = performance.now();
    const waiting = new Mutex(waiter, path).acquire({ wait: 1500 });
    await expire(waiter, server);
    await expect(waiting).rejects.toThrow(LockTimeoutError);
    expect(performance.now() - start).toBeLessThan(3000);
    await lease.release();
  });

  it('CURATOR-206: lets nobody enter again on the lock it lost', async () => {
    const path = server.path('curator-206');
    const client = await connect();
    const mutex = new Mutex(client, path);
    await mutex.withLock(async (lease) => {
      await expire(client, server);
      await aborted(lease.signal);
      await expect(mutex.withLock(() => 'inside')).rejects.toThrow(LeaseLostError);
      await expect(mutex.acquire()).rejects.toThrow(LeaseLostError);
    });
    await mutex.withLock(() => undefined);
  });
});

describe('a connection that breaks', () => {
  it('leaves the lease as it was when the session comes back', async () => {
    const path = server.path('broken');
    await using link = await Link.to(server.port);
    const client = await connect({ connectString: link.connectString });
    const lease = await new Mutex(client, path).acquire();
    await link.cut();
    await stateOf(client, 'SUSPENDED');
    expect(lease.held).toBe(true);
    await stateOf(client, 'RECONNECTED');
    expect(lease.signal.aborted).toBe(false);
    await lease.release();
    expect(await nodesUnder(client, path)).toEqual([]);
    await client.close();
  });

  it('ends the lease at once under the policy "standard", and its node is deleted after the reconnect', async () => {
    const path = server.path('standard');
    await using link = await Link.to(server.port);
    const client = await connect({ connectString: link.connectString, policy: 'standard' });
    const other = await connect();
    const lease = await new Mutex(client, path).acquire();
    await link.down();
    expect(await aborted(lease.signal)).toBeInstanceOf(LeaseLostError);
    await link.up();
    await stateOf(client, 'RECONNECTED');
    await new Mutex(other, path).withLock(() => undefined);
    await client.close();
  });

  it('ends the lease before the ensemble can give it to another', async () => {
    const path = server.path('partition');
    await using link = await Link.to(server.port);
    const cutOff = await connect({ connectString: link.connectString, sessionTimeout: 1500 });
    const other = await connect();
    const lease = await new Mutex(cutOff, path).acquire();
    let lostFirst = false;
    const waiting = new Mutex(other, path).acquire().then((next) => {
      lostFirst = lease.signal.aborted;
      return next;
    });
    lease.signal.addEventListener('abort', () => undefined);
    await link.down();
    await (await waiting).release();
    expect(lostFirst).toBe(true);
    await cutOff.close();
  });

  it('CURATOR-678, 486: does not keep the node of a lock released meanwhile', async () => {
    const path = server.path('curator-678');
    await using link = await Link.to(server.port);
    const client = await connect({ connectString: link.connectString });
    const other = await connect();
    const lease = await new Mutex(client, path).acquire();
    await link.down();
    await stateOf(client, 'SUSPENDED');
    await lease.release();
    expect(lease.held).toBe(false);
    await link.up();
    const next = await new Mutex(other, path).acquire({ wait: 10_000 });
    await next.release();
    await client.close();
  });

  it('CURATOR-45, 79: leaves no second node where the answer to a create was lost', async () => {
    const path = server.path('curator-45');
    await using link = await Link.to(server.port);
    const client = await connect({ connectString: link.connectString });
    const other = await connect();
    await client.ensureContainers(path);
    await link.deafen();
    const acquiring = new Mutex(client, path).acquire();
    await expect.poll(async () => await nodesUnder(other, path)).toHaveLength(1);
    await link.cut();
    const lease = await acquiring;
    expect(await nodesUnder(client, path)).toHaveLength(1);
    await lease.release();
    expect(await nodesUnder(client, path)).toEqual([]);
    await client.close();
  });

  it('CURATOR-190: leaves no node where the wait ended before the lost answer was made good', async () => {
    const path = server.path('curator-190');
    await using link = await Link.to(server.port);
    const client = await connect({ connectString: link.connectString });
    const other = await connect();
    await client.ensureContainers(path);
    const controller = new AbortController();
    await link.deafen();
    const acquiring = new Mutex(client, path).acquire({ signal: controller.signal });
    await expect.poll(async () => await nodesUnder(other, path)).toHaveLength(1);
    await link.down();
    controller.abort();
    await expect(acquiring).rejects.toMatchObject({ code: 'CANCELLED' });
    await link.up();
    await stateOf(client, 'RECONNECTED');
    await expect.poll(async () => await nodesUnder(other, path)).toEqual([]);
    await client.close();
  });

  it('kazoo 732: does not turn a try that failed meanwhile into a holder', async () => {
    const path = server.path('kazoo-732');
    await using link = await Link.to(server.port);
    const client = await connect({
      connectString: link.connectString,
      retry: { type: 'fixed', delay: 20, maxAttempts: 3 },
    });
    const other = await connect();
    await new Mutex(client, path).withLock(() => undefined);
    await link.down();
    await stateOf(client, 'SUSPENDED');
    await expect(new Mutex(client, path).tryAcquire()).rejects.toMatchObject({
      code: 'CONNECTION',
    });
    await link.up();
    await stateOf(client, 'RECONNECTED');
    await (await new Mutex(other, path).acquire({ wait: 0 })).release();
    await client.close();
  });
});

describe('a server that restarts', () => {
  it('keeps the holder in and the waiter waiting', async () => {
    const path = server.path('restart');
    const [holder, waiter] = await Promise.all([
      connect({ sessionTimeout: 20_000 }),
      connect({ sessionTimeout: 20_000 }),
    ]);
    const lease = await new Mutex(holder, path).acquire();
    const waiting = new Mutex(waiter, path).acquire();
    await expect.poll(async () => (await nodesUnder(holder, path)).length).toBe(2);
    await server.restart();
    await holder.sync(path);
    expect(lease.held).toBe(true);
    await lease.release();
    await (await waiting).release();
  });
});

describe('a parent that vanishes', () => {
  it('kazoo 563: is made again for the next acquire', async () => {
    const path = server.path('kazoo-563');
    const client = await connect();
    for (let round = 0; round < 5; round++) {
      await new Mutex(client, path).withLock(() => undefined);
      await client.delete(path);
    }
  });

  it('go-zookeeper: is not read as a grant where the own node went with it', async () => {
    const path = server.path('own-node-gone');
    const [holder, waiter] = await Promise.all([connect(), connect()]);
    const lease = await new Mutex(holder, path).acquire();
    const waiting = new Mutex(waiter, path).acquire();
    await expect.poll(async () => (await nodesUnder(holder, path)).length).toBe(2);
    const { children } = await holder.children(path);
    const ofWaiter = children.find((name) => name.endsWith('0000000001'))!;
    await holder.delete(`${path}/${ofWaiter}`);
    await lease.release();
    const granted = await waiting;
    expect(await nodesUnder(holder, path)).toHaveLength(1);
    await granted.release();
  });
});
