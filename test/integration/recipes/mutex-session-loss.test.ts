import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect } from 'vitest';
import {
  ConnectionError,
  LeaseLostError,
  LockTimeoutError,
  Mutex,
  ReadWriteLock,
} from 'nestjs-zookeeper/recipes';
import { aborted, expire, untilState, useClients, useLinks } from '../../support/clients.js';
import { isSimulated } from '../../support/environment.js';
import { failureOf, nodesUnder, untilNodes } from '../../support/recipe-nodes.js';
import { serverHas, useServer } from '../../support/servers.js';
import { it } from '../../support/virtual-time.js';

const server = useServer();
const newLink = useLinks(server);
const connect = useClients(server);

it('a waiter whose session expires queues again with the remaining part of its wait', async () => {
  const path = server.path('remaining');
  const [holder, waiter] = await Promise.all([connect(), connect()]);
  await new Mutex(holder, path).acquire();
  const start = performance.now();
  const waiting = failureOf(new Mutex(waiter, path).acquire({ wait: 2000 }));
  await delay(1000);
  await expire(waiter, server);
  expect(await waiting).toBeInstanceOf(LockTimeoutError);
  // A timer counts whole milliseconds.
  expect(Math.ceil(performance.now() - start)).toBe(2000);
});

it.runIf(isSimulated)('a waiter in the queue gives up when the retry policy does', async () => {
  const path = server.path('outage');
  const [holder, waiter] = await Promise.all([connect(), connect()]);
  await new Mutex(holder, path).acquire();
  const waiting = failureOf(new Mutex(waiter, path).acquire());
  await untilNodes(holder, path, 2);
  const start = performance.now();
  await server.stop();
  expect(await waiting).toBeInstanceOf(ConnectionError);
  expect(performance.now() - start).toBeLessThan(20_000);
});

it('a listener of the session that runs in the call chain of a holder does not enter the lost lock again', async () => {
  const client = await connect();
  const mutex = new Mutex(client, server.path('listener'));
  const session = await client.session();
  await mutex.withLock(async () => {
    const again = new Promise((resolve) => {
      session.onLost(() => resolve(failureOf(mutex.withLock(() => 'entered'))));
    });
    await expire(client, server);
    expect(await again).toBeInstanceOf(LeaseLostError);
  });
});

describe.runIf(serverHas.sessionResume)('when the connection of a holder breaks', () => {
  it('the lease is still held once the session is restored', async () => {
    const path = server.path('broken');
    const link = await newLink();
    const client = await connect({ connectString: link.connectString });
    const lease = await new Mutex(client, path).acquire();
    const suspended = untilState(client, 'SUSPENDED').then(() => lease.held);
    await link.cut();
    expect(await suspended).toBe(true);
    await untilState(client, 'RECONNECTED');
    expect(lease.signal.aborted).toBe(false);
    await lease.release();
    expect(await nodesUnder(client, path)).toEqual([]);
  });

  it.each([
    ['mutex', 'is free', undefined],
    ['mutex', 'lingers', { linger: 3_600_000 }],
    ['mutex', 'is kept by holdAtLeast', { holdAtLeast: 1_000 }],
    ['read lock', 'lingers', { linger: 3_600_000 }],
    ['read lock', 'is kept by holdAtLeast', { holdAtLeast: 1_000 }],
  ])(
    'the policy "standard" ends a lease that was acquired from a %s that %s, and its node is deleted after the reconnect',
    async (kind, _, options) => {
      const path = server.path('standard');
      const link = await newLink();
      const client = await connect({ connectString: link.connectString, policy: 'standard' });
      const lock =
        kind === 'mutex' ? new Mutex(client, path) : new ReadWriteLock(client, path).read;
      if (options) {
        await lock.withLock(() => {}, options);
        await link.cut();
        await untilState(client, 'RECONNECTED');
      }
      const lease = await lock.acquire();
      expect(lease.held).toBe(true);
      await link.down();
      expect(await aborted(lease.signal)).toBeInstanceOf(LeaseLostError);
      await link.up();
      await untilState(client, 'RECONNECTED');
      expect(lease.held).toBe(false);
      await untilNodes(await connect(), path, 0);
    },
  );
});
