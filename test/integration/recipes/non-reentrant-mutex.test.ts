import { describe, expect, it } from 'vitest';
import {
  currentLease,
  LockBusyError,
  LockTimeoutError,
  NonReentrantMutex,
  runDetached,
  SelfDeadlockError,
  Semaphore,
} from 'nestjs-zookeeper/recipes';
import { expire, useClients } from '../../support/clients.js';
import { failureOf, nodesUnder, untilNothingLeft, untilNodes } from '../../support/recipe-nodes.js';
import { useServer } from '../../support/servers.js';

const server = useServer();
const connect = useClients(server);

const queues = (path: string) => [`${path}/locks`, `${path}/leases`];

describe('NonReentrantMutex', () => {
  it('admits one holder at a time', async () => {
    const path = server.path('exclusion');
    const clients = await Promise.all([connect(), connect(), connect()]);
    let inside = 0;
    let most = 0;
    let value = 0;
    await Promise.all(
      clients.flatMap((client) =>
        Array.from({ length: 8 }, () =>
          new NonReentrantMutex(client, path).withLock(async () => {
            most = Math.max(most, ++inside);
            const read = value;
            await client.sync(path);
            value = read + 1;
            inside--;
          }),
        ),
      ),
    );
    expect([most, value]).toEqual([1, 24]);
    await untilNothingLeft(server, clients[0]!, ...queues(path));
  });

  it('grants in the order of the calls inside one process', async () => {
    const path = server.path('order');
    const client = await connect();
    const order: number[] = [];
    await Promise.all(
      Array.from({ length: 20 }, (_, index) =>
        new NonReentrantMutex(client, path).withLock(() => void order.push(index)),
      ),
    );
    expect(order).toEqual(Array.from({ length: 20 }, (_, index) => index));
  });

  it('uses the znode layout of a semaphore with one permit, as Curator does', async () => {
    const path = server.path('layout');
    const [client, other] = await Promise.all([connect(), connect()]);
    const lease = await new NonReentrantMutex(client, path, { key: 'gold' }).acquire();
    expect(lease).toMatchObject({ key: 'gold', path, held: true });
    expect(await nodesUnder(client, `${path}/leases`)).toEqual([
      expect.stringMatching(/^_c_[0-9a-f-]{36}-lease-0000000000$/),
    ]);
    await expect(new Semaphore(other, path, { permits: 1 }).acquire({ wait: 0 })).rejects.toThrow(
      LockBusyError,
    );
    await lease.release();
  });

  it('gives every grant a higher fencing token', async () => {
    const path = server.path('tokens');
    const clients = await Promise.all([connect(), connect()]);
    let last = 0n;
    for (let round = 0; round < 6; round++) {
      await new NonReentrantMutex(clients[round % 2]!, path).withLock(({ fencingToken }) => {
        expect(fencingToken).toBeGreaterThan(last);
        last = fencingToken;
      });
    }
  });

  it('times out at the deadline and leaves neither node nor watch', async () => {
    const path = server.path('timeout');
    const [holder, other] = await Promise.all([connect(), connect()]);
    const lease = await new NonReentrantMutex(holder, path).acquire();
    const mutex = new NonReentrantMutex(other, path);
    const error = await failureOf(mutex.acquire({ wait: 40 }));
    expect(error).toBeInstanceOf(LockTimeoutError);
    // Only its nodes are those of a semaphore.
    expect((error as Error).message).toBe(
      `lock "${path}" was not granted within 40 ms; participants() lists the holders`,
    );
    expect(await mutex.tryAcquire()).toBeUndefined();
    await lease.release();
    await untilNothingLeft(server, holder, ...queues(path));
  });

  it('is granted to the next waiter when the session of the holder ends', async () => {
    const path = server.path('expired');
    const [holder, other] = await Promise.all([connect(), connect()]);
    await new NonReentrantMutex(holder, path).acquire();
    const waiting = new NonReentrantMutex(other, path).acquire();
    await untilNodes(other, `${path}/leases`, 2);
    await expire(holder, server);
    await (await waiting).release();
  });
});

describe('the options of NonReentrantMutex', () => {
  it('reject unknown names', async () => {
    const client = await connect();
    const make = () => new NonReentrantMutex(client, '/door', { reentrant: true } as never);
    expect(make).toThrow(expect.objectContaining({ code: 'BAD_OPTION', option: 'reentrant' }));
  });
});

describe('a call chain that holds a NonReentrantMutex', () => {
  it('gets an error from every further acquire instead of waiting for itself', async () => {
    const path = server.path('again');
    const client = await connect();
    const mutex = new NonReentrantMutex(client, path, { key: 'gold' });
    await mutex.withLock(async () => {
      expect(currentLease('gold')?.held).toBe(true);
      const again = new NonReentrantMutex(client, path, { key: 'gold' });
      for (const attempt of [again.withLock(() => 'never'), again.acquire(), again.tryAcquire()]) {
        const error = await failureOf(attempt);
        expect(error).toBeInstanceOf(SelfDeadlockError);
        expect(error).toMatchObject({ key: 'gold' });
      }
      expect(await nodesUnder(client, `${path}/leases`)).toHaveLength(1);
    });
    await untilNothingLeft(server, client, ...queues(path));
  });

  it('may wait for it in a detached part that does not count as the holder', async () => {
    const path = server.path('detached');
    const mutex = new NonReentrantMutex(await connect(), path);
    let waiting!: Promise<string>;
    await mutex.withLock(() => {
      waiting = runDetached(() => mutex.withLock(() => 'in'));
    });
    expect(await waiting).toBe('in');
  });
});
