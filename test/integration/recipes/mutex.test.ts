import { describe, expect, it } from 'vitest';
import {
  BadOptionError,
  LockBusyError,
  LockTimeoutError,
  Mutex,
  RecipeConflictError,
  ReadLock,
  ReadWriteLock,
  WaitCancelledError,
  WriteLock,
} from 'nestjs-zookeeper/recipes';
import { aborted, useClients } from '../../support/clients.js';
import { nodesUnder, untilNodes } from '../../support/recipe-nodes.js';
import { serverHas, useServer } from '../../support/servers.js';

const server = useServer();
const connect = useClients(server);

describe('Mutex', () => {
  it('admits one holder at a time', async () => {
    const path = server.path('exclusion');
    const clients = await Promise.all([connect(), connect(), connect()]);
    let inside = 0;
    let most = 0;
    let value = 0;
    await Promise.all(
      clients.flatMap((client) =>
        Array.from({ length: 20 }, () =>
          new Mutex(client, path).withLock(async () => {
            most = Math.max(most, ++inside);
            const read = value;
            await new Promise(setImmediate);
            value = read + 1;
            inside--;
          }),
        ),
      ),
    );
    expect(most).toBe(1);
    expect(value).toBe(60);
    expect(await nodesUnder(clients[0]!, path)).toEqual([]);
  });

  it('grants in the order of arrival', async () => {
    const path = server.path('fifo');
    const [observer, ...clients] = await Promise.all(Array.from({ length: 5 }, () => connect()));
    const first = await new Mutex(observer!, path).acquire();
    const order: number[] = [];
    const waits: Promise<void>[] = [];
    for (const [index, client] of clients.entries()) {
      waits.push(new Mutex(client, path).withLock(() => void order.push(index)));
      await untilNodes(observer!, path, index + 2);
    }
    await first.release();
    await Promise.all(waits);
    expect(order).toEqual([0, 1, 2, 3]);
  });

  it('grants in the order of the calls inside one process', async () => {
    const path = server.path('local-fifo');
    const client = await connect();
    const order: number[] = [];
    await Promise.all(
      Array.from({ length: 50 }, (_, index) =>
        new Mutex(client, path).withLock(() => void order.push(index)),
      ),
    );
    expect(order).toEqual(Array.from({ length: 50 }, (_, index) => index));
  });

  it('grants callers with strict fairness in the order of arrival across processes', async () => {
    const path = server.path('turns');
    const [busy, other] = await Promise.all([connect(), connect()]);
    const held = await new Mutex(busy, path).acquire();
    const order: string[] = [];
    const ofBusy = Array.from({ length: 5 }, () =>
      new Mutex(busy, path).withLock(() => void order.push('busy'), { fairness: 'strict' }),
    );
    await untilNodes(busy, path, 6);
    const ofOther = new Mutex(other, path).withLock(() => void order.push('other'));
    await untilNodes(busy, path, 7);
    const later = new Mutex(busy, path).withLock(() => void order.push('later'), {
      fairness: 'strict',
    });
    await untilNodes(busy, path, 8);
    await held.release();
    await Promise.all([...ofBusy, ofOther, later]);
    expect(order).toEqual([...Array(5).fill('busy'), 'other', 'later']);
  });

  it.runIf(serverHas.containers)(
    'names its nodes as Curator does, with details of the holder, under a container',
    async () => {
      const path = server.path('layout');
      const client = await connect();
      const lease = await new Mutex(client, path).acquire();
      const [node] = await nodesUnder(client, path);
      expect(node).toMatch(/^_c_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}-lock-0000000000$/);
      const { data, stat } = await client.get(`${path}/${node}`);
      expect(JSON.parse(data.toString())).toMatchObject({ pid: process.pid });
      expect(stat.ephemeralOwner).toBe((await client.session()).id);
      await lease.release();
      // Only a container is reaped.
      await expect.poll(() => client.exists(path)).toBeUndefined();
    },
  );

  it('gives every grant a higher fencing token, even after its path was deleted', async () => {
    const path = server.path('tokens');
    const clients = await Promise.all([connect(), connect()]);
    const tokens: bigint[] = [];
    for (let round = 0; round < 10; round++) {
      const mutex = new Mutex(clients[round % 2]!, path);
      await mutex.withLock((lease) => void tokens.push(lease.fencingToken));
      if (round !== 4) continue;
      // The server may have reaped it already.
      await clients[0]!.delete(path).catch(() => undefined);
      expect(await clients[0]!.exists(path)).toBeUndefined();
    }
    for (const [index, token] of tokens.entries()) {
      if (index > 0) expect(token).toBeGreaterThan(tokens[index - 1]!);
      expect(BigInt.asIntN(64, token)).toBe(token);
    }
  });
});

describe('Mutex: waiting', () => {
  it('makes a single attempt with wait: 0 and leaves nothing behind', async () => {
    const path = server.path('try');
    const [holder, other] = await Promise.all([connect(), connect()]);
    const lease = await new Mutex(holder, path).acquire();
    await expect(new Mutex(other, path).acquire({ wait: 0 })).rejects.toThrow(LockBusyError);
    await expect(new Mutex(holder, path).acquire({ wait: 0 })).rejects.toThrow(LockBusyError);
    expect(await new Mutex(other, path).tryAcquire()).toBeUndefined();
    await untilNodes(holder, path, 1);
    await lease.release();
    const taken = await new Mutex(other, path).tryAcquire();
    expect(taken?.held).toBe(true);
    await taken!.release();
    expect(await nodesUnder(holder, path)).toEqual([]);
  });

  it('times out after the given milliseconds and leaves neither node nor watch', async () => {
    const path = server.path('timeout');
    const [holder, other] = await Promise.all([connect(), connect()]);
    const lease = await new Mutex(holder, path).acquire();
    const start = performance.now();
    const error = await new Mutex(other, path, { key: 'gold' })
      .acquire({ wait: 100 })
      .catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(LockTimeoutError);
    expect(error).toMatchObject({ code: 'TIMEOUT', key: 'gold' });
    expect(performance.now() - start).toBeGreaterThanOrEqual(99);
    await untilNodes(holder, path, 1);
    await lease.release();
    await expect.poll(() => server.watchCount()).toBe(0);
  });

  it('rejects when the signal aborts, with its reason as the cause', async () => {
    const path = server.path('cancel');
    const [holder, other] = await Promise.all([connect(), connect()]);
    await using _lease = await new Mutex(holder, path).acquire();
    const controller = new AbortController();
    const waiting = new Mutex(other, path).acquire({ signal: controller.signal });
    await untilNodes(holder, path, 2);
    const reason = new Error('the customer left');
    controller.abort(reason);
    await expect(waiting).rejects.toThrow(WaitCancelledError);
    await expect(waiting).rejects.toMatchObject({ cause: reason });
    await untilNodes(holder, path, 1);
  });

  it('rejects at once when the signal has already aborted', async () => {
    const client = await connect();
    const path = server.path('cancelled');
    await expect(new Mutex(client, path).acquire({ signal: AbortSignal.abort() })).rejects.toThrow(
      WaitCancelledError,
    );
    expect(await client.exists(path)).toBeUndefined();
  });

  it('continues when waiters ahead of it give up', async () => {
    const path = server.path('inherit');
    const [holder, other] = await Promise.all([connect(), connect()]);
    const lease = await new Mutex(holder, path).acquire();
    const short = new Mutex(other, path).acquire({ wait: 50 });
    const long = new Mutex(other, path).acquire({ wait: 10_000 });
    await expect(short).rejects.toThrow(LockTimeoutError);
    await lease.release();
    await (await long).release();
  });

  it.each([-1, Number.NaN, '5', null])('rejects a wait of %s', async (wait) => {
    const client = await connect();
    await expect(
      new Mutex(client, server.path('bad')).acquire({ wait: wait as number }),
    ).rejects.toThrow(BadOptionError);
  });
});

describe('Mutex: lease', () => {
  it('is not held once release() was called, and may be released again', async () => {
    const path = server.path('release');
    const client = await connect();
    const lease = await new Mutex(client, path).acquire();
    expect(lease).toMatchObject({ key: path, path, held: true });
    const released = lease.release();
    expect(lease.held).toBe(false);
    await Promise.all([released, lease.release()]);
    expect(await nodesUnder(client, path)).toEqual([]);
    expect(lease.signal.aborted).toBe(false);
  });

  it('does not release the next holder when it is released a second time', async () => {
    const path = server.path('late');
    const client = await connect();
    const first = await new Mutex(client, path).acquire();
    await first.release();
    const second = await new Mutex(client, path).acquire();
    await first.release();
    expect(second.held).toBe(true);
    await expect(new Mutex(client, path).acquire({ wait: 0 })).rejects.toThrow(LockBusyError);
    await second.release();
  });
});

describe('Mutex: path', () => {
  it.each(['', 'orders', '/orders/', '/a//b', '/nul\0'])('%j is rejected', async (path) => {
    const client = await connect();
    expect(() => new Mutex(client, path)).toThrow(BadOptionError);
  });

  it('is rejected with options that a lock does not have', async () => {
    const client = await connect();
    for (const Recipe of [Mutex, ReadLock, WriteLock, ReadWriteLock]) {
      const make = () => new Recipe(client, '/orders', { rentrant: false } as never);
      expect(make).toThrow(expect.objectContaining({ code: 'BAD_OPTION', option: 'rentrant' }));
    }
  });

  it.each(['__WRIT__', 'x__lock__', 'latch-'])(
    'with nodes of another recipe (%s) is rejected, and nothing is left on it',
    async (foreign) => {
      const path = server.path('foreign');
      const client = await connect();
      await client.ensureContainers(path);
      await client.create(`${path}/${foreign}`, '', { mode: 'ephemeral-sequential' });
      await expect(new Mutex(client, path).acquire()).rejects.toThrow(RecipeConflictError);
      await untilNodes(client, path, 1);
    },
  );

  it('works beside nodes with unknown names', async () => {
    const path = server.path('unknown');
    const client = await connect();
    await client.ensureContainers(path);
    await client.create(`${path}/notes`, '');
    await new Mutex(client, path).withLock(() => undefined);
  });
});

describe('Mutex: node deleted by hand', () => {
  it('loses its lease, because the next waiter has the lock by then', async () => {
    const path = server.path('by-hand');
    const [holder, operator] = await Promise.all([connect(), connect()]);
    const lease = await new Mutex(holder, path).acquire();
    const { children } = await operator.children(path);
    await operator.delete(`${path}/${children[0]}`);
    await aborted(lease.signal);
    expect(lease.held).toBe(false);
    await using _next = await new Mutex(operator, path).acquire({ wait: 0 });
    await lease.release();
  });
});
