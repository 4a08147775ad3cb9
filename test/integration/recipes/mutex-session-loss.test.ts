import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { LeaseLostError, LockTimeoutError, Mutex, ReadWriteLock } from 'nestjs-zookeeper/recipes';
import { aborted, expire, untilState, useClients } from '../../support/clients.js';
import { Link } from '../../support/link.js';
import { failureOf, nodesUnder } from '../../support/recipe-nodes.js';
import { serverHas, useServer } from '../../support/servers.js';

const server = useServer({ own: true });
const connect = useClients(server);

describe('when a session expires', () => {
  it('the signal of the lease aborts with the reason, and the next waiter gets the lock', async () => {
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

  it('a waiter queues again with the remaining part of its wait', async () => {
    const path = server.path('remaining');
    const [holder, waiter] = await Promise.all([connect(), connect()]);
    const lease = await new Mutex(holder, path).acquire();
    const waiting = failureOf(new Mutex(waiter, path).acquire({ wait: 2000 }));
    await delay(1000);
    await expire(waiter, server);
    // If the wait started again, it would end after this timer, whatever delays both.
    let late = false;
    const timer = setTimeout(() => (late = true), 1900);
    expect(await waiting).toBeInstanceOf(LockTimeoutError);
    expect(late).toBe(false);
    clearTimeout(timer);
    await lease.release();
  });
});

describe('when a connection breaks', () => {
  it.runIf(serverHas.sessionResume)(
    'the lease is still held once the session is restored',
    async () => {
      const path = server.path('broken');
      await using link = await Link.to(server.port);
      const client = await connect({ connectString: link.connectString });
      const lease = await new Mutex(client, path).acquire();
      const suspended = untilState(client, 'SUSPENDED').then(() => lease.held);
      await link.cut();
      expect(await suspended).toBe(true);
      await untilState(client, 'RECONNECTED');
      expect(lease.signal.aborted).toBe(false);
      await lease.release();
      expect(await nodesUnder(client, path)).toEqual([]);
      await client.close();
    },
  );

  it.runIf(serverHas.sessionResume)(
    'the policy "standard" ends the lease at once, and its node is deleted after the reconnect',
    async () => {
      const path = server.path('standard');
      await using link = await Link.to(server.port);
      const client = await connect({ connectString: link.connectString, policy: 'standard' });
      const other = await connect();
      const lease = await new Mutex(client, path).acquire();
      await link.down();
      expect(await aborted(lease.signal)).toBeInstanceOf(LeaseLostError);
      await link.up();
      await untilState(client, 'RECONNECTED');
      await new Mutex(other, path).withLock(() => undefined);
      await client.close();
    },
  );

  it.runIf(serverHas.sessionResume).each([
    ['mutex', 'lingers', { linger: 3_600_000 }],
    ['mutex', 'is kept by holdAtLeast', { holdAtLeast: 1_000 }],
    ['read lock', 'lingers', { linger: 3_600_000 }],
    ['read lock', 'is kept by holdAtLeast', { holdAtLeast: 1_000 }],
  ])(
    'the policy "standard" ends a lease that was acquired from a %s that %s',
    async (kind, _, options) => {
      const path = server.path('standard-free');
      await using link = await Link.to(server.port);
      const client = await connect({ connectString: link.connectString, policy: 'standard' });
      const lock =
        kind === 'mutex' ? new Mutex(client, path) : new ReadWriteLock(client, path).read;
      await lock.withLock(() => {}, options);
      await link.cut();
      await untilState(client, 'RECONNECTED');
      const lease = await lock.acquire();
      expect(lease.held).toBe(true);
      await link.down();
      expect(await aborted(lease.signal)).toBeInstanceOf(LeaseLostError);
      await link.up();
      await untilState(client, 'RECONNECTED');
      expect(lease.held).toBe(false);
      await client.close();
    },
  );

  it('the lease ends before the ensemble can grant the lock to another client', async () => {
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
});

describe('when a server restarts', () => {
  it.runIf(serverHas.sessionResume)(
    'the holder keeps its lease and the waiter keeps waiting',
    async () => {
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
    },
  );
});
