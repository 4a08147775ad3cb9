import { describe, expect, it } from 'vitest';
import {
  RecipeConflictError,
  LeaseLostError,
  LockBusyError,
  LockTimeoutError,
  Mutex,
  ReadWriteLock,
  SelfDeadlockError,
  WaitCancelledError,
} from 'nestjs-zookeeper/recipes';
import { OpCode } from '../../../lib/protocol/index.js';
import { SharedLock } from '../../../lib/teaching/index.js';
import { aborted, useClients } from '../../support/clients.js';
import { MultiRequest, MultiResponse, steps } from '../../support/multi-records.js';
import { RawClient } from '../../support/raw-client.js';
import { nodesUnder, untilNodes } from '../../support/recipe-nodes.js';
import { useServer } from '../../support/servers.js';
import { expire } from '../../support/sessions.js';

const server = useServer();
const connect = useClients(server);

describe('the shared lock with a child watch', () => {
  it('admits readers together and a writer alone, and leaves nothing behind', async () => {
    const path = server.path('shared');
    const clients = await Promise.all([connect(), connect(), connect()]);
    let readers = 0;
    let writers = 0;
    let mixed = false;
    const look = () => (mixed ||= writers > 1 || (writers > 0 && readers > 0));
    await Promise.all(
      clients.flatMap((client) =>
        Array.from({ length: 12 }, (_, index) => {
          const { read, write } = new SharedLock(client, path);
          if (index % 3 === 0) {
            return write.withLock(async () => {
              writers++;
              look();
              await new Promise(setImmediate);
              writers--;
            });
          }
          return read.withLock(async () => {
            readers++;
            look();
            await new Promise(setImmediate);
            readers--;
          });
        }),
      ),
    );
    expect(mixed).toBe(false);
    await untilNodes(clients[0]!, path, 0);
    await expect.poll(() => server.watchCount()).toBe(0);
  });

  it('admits several readers at once', async () => {
    const path = server.path('readers');
    const [one, two] = await Promise.all([connect(), connect()]);
    const first = await new SharedLock(one, path).read.acquire({ wait: 0 });
    const second = await new SharedLock(two, path).read.acquire({ wait: 0 });
    await expect(new SharedLock(two, path).write.acquire({ wait: 0 })).rejects.toThrow(
      LockBusyError,
    );
    await Promise.all([first.release(), second.release()]);
    await untilNodes(one, path, 0);
  });

  it('grants in the order of arrival', async () => {
    const path = server.path('order');
    const [observer, ...clients] = await Promise.all(Array.from({ length: 5 }, () => connect()));
    const held = await new SharedLock(observer!, path).write.acquire();
    const order: number[] = [];
    const waits: Promise<void>[] = [];
    for (const [index, client] of clients.entries()) {
      waits.push(new SharedLock(client, path).write.withLock(() => void order.push(index)));
      await untilNodes(observer!, path, index + 2);
    }
    await held.release();
    await Promise.all(waits);
    expect(order).toEqual([0, 1, 2, 3]);
  });

  it('excludes the real read/write lock on the same path, and the reverse', async () => {
    const path = server.path('with-the-real-one');
    const [one, two] = await Promise.all([connect(), connect()]);
    const real = await new ReadWriteLock(one, path).write.acquire();
    const waiting = new SharedLock(two, path).read.acquire();
    await untilNodes(one, path, 2);
    await real.release();
    const taught = await waiting;
    await expect(new ReadWriteLock(one, path).write.acquire({ wait: 0 })).rejects.toThrow(
      LockBusyError,
    );
    await taught.release();
  });

  it('ends a wait at its timeout or its signal, and leaves no node', async () => {
    const path = server.path('waits');
    const [holder, other] = await Promise.all([connect(), connect()]);
    const lease = await new SharedLock(holder, path).write.acquire();
    const { read } = new SharedLock(other, path);
    await expect(read.acquire({ wait: 50 })).rejects.toThrow(LockTimeoutError);
    await untilNodes(holder, path, 1);
    const controller = new AbortController();
    const waiting = read.acquire({ signal: controller.signal });
    await untilNodes(holder, path, 2);
    controller.abort();
    await expect(waiting).rejects.toThrow(WaitCancelledError);
    await untilNodes(holder, path, 1);
    await lease.release();
    await expect.poll(() => server.watchCount()).toBe(0);
  });

  it('is granted to the next waiter when the session of its holder expires, and the holder is notified', async () => {
    const path = server.path('expired');
    const [holder, other] = await Promise.all([connect(), connect()]);
    const lease = await new SharedLock(holder, path).write.acquire();
    const waiting = new SharedLock(other, path).write.acquire();
    await expire(await holder.session(), server.port);
    const next = await waiting;
    expect(await aborted(lease.signal)).toBeInstanceOf(LeaseLostError);
    expect(next.fencingToken).toBeGreaterThan(lease.fencingToken);
    await next.release();
  });

  it('is granted in the next session when the session of the waiter expires', async () => {
    const path = server.path('waiter-expired');
    const [holder, waiter] = await Promise.all([connect(), connect()]);
    const lease = await new SharedLock(holder, path).write.acquire();
    const waiting = new SharedLock(waiter, path).write.acquire();
    await untilNodes(holder, path, 2);
    const before = await waiter.session();
    await expire(before, server.port);
    await expect.poll(() => waiter.session()).not.toBe(before);
    await lease.release();
    const granted = await waiting;
    const [node] = await nodesUnder(holder, path);
    expect((await holder.exists(`${path}/${node}`))!.ephemeralOwner).toBe(
      (await waiter.session()).id,
    );
    await granted.release();
  });

  it('queues a waiter again if its node is deleted', async () => {
    const path = server.path('by-hand');
    const [holder, waiter] = await Promise.all([connect(), connect()]);
    const lease = await new SharedLock(holder, path).write.acquire();
    const [held] = await nodesUnder(holder, path);
    const waiting = new SharedLock(waiter, path).write.acquire();
    await untilNodes(holder, path, 2);
    const waits = (await nodesUnder(holder, path)).find((name) => name !== held)!;
    await holder.delete(`${path}/${waits}`);
    await expect
      .poll(async () => (await nodesUnder(holder, path)).filter((name) => name !== held))
      .toEqual([expect.not.stringMatching(waits)]);
    await lease.release();
    await (await waiting).release();
  });

  it('queues a waiter again if its node is deleted together with the path', async () => {
    const path = server.path('path-deleted');
    const [holder, waiter] = await Promise.all([connect(), connect()]);
    const lease = await new SharedLock(holder, path).write.acquire();
    const waiting = new SharedLock(waiter, path).write.acquire();
    await untilNodes(holder, path, 2);
    const nodes = await nodesUnder(holder, path);
    // In one transaction, so that the waiter finds nothing when it reads.
    const raw = await RawClient.connect({ port: server.port });
    const deletions = [...nodes.map((node) => `${path}/${node}`), path].map((at) =>
      steps.delete(at),
    );
    const { body } = await raw.request(OpCode.multi, MultiRequest, deletions, MultiResponse);
    expect(body!.results.map(({ err }) => err)).toEqual([0, 0, 0]);
    await raw.closeSession();
    await (await waiting).release();
    expect(await aborted(lease.signal)).toBeInstanceOf(LeaseLostError);
  });

  it('re-enters along the call chain, lets a writer read, and rejects a reader that wants to write', async () => {
    const path = server.path('reentry');
    const { read, write } = new SharedLock(await connect(), path);
    await write.withLock(() => write.withLock(() => read.withLock(() => undefined)));
    await read.withLock(async () => {
      await expect(write.withLock(() => undefined)).rejects.toThrow(SelfDeadlockError);
    });
  });

  it('rejects a path that a mutex uses', async () => {
    const path = server.path('foreign');
    const client = await connect();
    const lease = await new Mutex(client, path).acquire();
    await expect(new SharedLock(client, path).read.acquire()).rejects.toThrow(RecipeConflictError);
    await untilNodes(client, path, 1);
    await lease.release();
  });
});
