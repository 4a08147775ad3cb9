import { describe, expect } from 'vitest';
import {
  BadOptionError,
  LeaseLostError,
  LockBusyError,
  LockTimeoutError,
  Mutex,
  ReadWriteLock,
  RecipeConflictError,
  SelfDeadlockError,
  WaitCancelledError,
  type ZkClient,
} from 'nestjs-zookeeper/recipes';
import { REVOKE_MESSAGE } from '../../../lib/recipes/internals/node-data.js';
import { SharedLock, SingleNodeLock } from '../../../lib/teaching/index.js';
import { aborted, expire, useClients, useLinks } from '../../support/clients.js';
import { nodesUnder, untilNodes, untilNothingLeft } from '../../support/recipe-nodes.js';
import { serverHas, useServer } from '../../support/servers.js';
import { currentWorld, it } from '../../support/virtual-time.js';

const server = useServer();
const newLink = useLinks(server);
const connect = useClients(server);
const connected = (count: number) => Promise.all(Array.from({ length: count }, () => connect()));

// Both locks on the znode `path/lock`, so that the nodes of holders and waiters are below `path` or `path/lock`.
const exclusive: [string, (client: ZkClient, path: string) => SingleNodeLock][] = [
  ['single-node lock', (client, path) => new SingleNodeLock(client, `${path}/lock`)],
  ['shared lock of a writer', (client, path) => new SharedLock(client, path).write as never],
];

describe.each(exclusive)('the %s', (_name, lockAt) => {
  it('admits one holder at a time, with increasing tokens, and leaves nothing behind', async () => {
    const path = server.path('exclusive');
    const clients = await connected(3);
    const tokens: bigint[] = [];
    let inside = 0;
    const visit = (client: ZkClient) =>
      lockAt(client, path).withLock(async ({ fencingToken }) => {
        expect(++inside).toBe(1);
        tokens.push(fencingToken);
        await new Promise(setImmediate);
        inside--;
      });
    await Promise.all([...clients, ...clients, ...clients].map(visit));
    expect(tokens).toHaveLength(9);
    for (const [index, token] of tokens.slice(1).entries()) {
      expect(token).toBeGreaterThan(tokens[index]!);
    }
    await untilNothingLeft(server, clients[0]!, path);
  });

  it('ends a wait at its timeout or its signal, and then acquires nothing', async () => {
    const path = server.path('waits');
    const [holder, other] = await connected(2);
    const lease = await lockAt(holder!, path).acquire();
    const lock = lockAt(other!, path);
    await expect(lock.acquire({ wait: 0 })).rejects.toThrow(LockBusyError);
    await expect(lock.acquire({ wait: 50 })).rejects.toThrow(LockTimeoutError);
    const controller = new AbortController();
    const waiting = lock.acquire({ signal: controller.signal });
    await other!.sync('/');
    controller.abort();
    await expect(waiting).rejects.toThrow(WaitCancelledError);
    await expect(lock.acquire({ wait: -1 })).rejects.toThrow(BadOptionError);
    await lease.release();
    await untilNothingLeft(server, holder!, path);
  });

  it('is granted to the next waiter when the session of its holder expires', async () => {
    const path = server.path('expired');
    const [holder, other] = await connected(2);
    const lease = await lockAt(holder!, path).acquire();
    const waiting = lockAt(other!, path).acquire();
    await expire(holder!, server);
    const next = await waiting;
    expect(await aborted(lease.signal)).toBeInstanceOf(LeaseLostError);
    expect(next.fencingToken).toBeGreaterThan(lease.fencingToken);
    await lease.release();
    expect(next.held).toBe(true);
    await next.release();
  });

  it('is granted in the next session when the session of the waiter expires', async () => {
    const path = server.path('waiter-expired');
    const [holder, waiter] = await connected(2);
    const lease = await lockAt(holder!, path).acquire();
    const waiting = lockAt(waiter!, path).acquire();
    await waiter!.sync('/');
    await expire(waiter!, server);
    await lease.release();
    const granted = await waiting;
    const [node] = await nodesUnder(holder!, path);
    const { ephemeralOwner } = (await holder!.exists(`${path}/${node}`))!;
    expect(ephemeralOwner).toBe((await waiter!.session()).id);
    await granted.release();
  });

  it('has one node after a create whose reply is lost, and none if the wait was cancelled', async () => {
    for (const cancels of [false, true]) {
      const path = server.path('lost-create');
      const link = await newLink();
      const client = await connect({ connectString: link.connectString, sessionTimeout: 1000 });
      const observer = await connect();
      await observer.ensureContainers(path);
      await link.holdReplies();
      const controller = new AbortController();
      const acquiring = lockAt(client, path).acquire({ signal: controller.signal });
      await untilNodes(observer, path, 1);
      const nodes = await nodesUnder(observer, path);
      if (cancels) {
        controller.abort();
        await expect(acquiring).rejects.toThrow(WaitCancelledError);
      }
      await link.cut();
      if (!cancels) {
        const lease = await acquiring;
        if (serverHas.sessionResume) expect(await nodesUnder(observer, path)).toEqual(nodes);
        await lease.release();
      }
      await untilNothingLeft(server, observer, path);
    }
  });

  it('is lost if its node is deleted; release() does not delete the node of the next holder', async () => {
    const path = server.path('by-hand');
    const [holder, operator] = await connected(2);
    const lease = await lockAt(holder!, path).acquire();
    const [node] = await nodesUnder(operator!, path);
    await operator!.delete(`${path}/${node}`);
    const next = await lockAt(operator!, path).acquire();
    expect(await aborted(lease.signal)).toBeInstanceOf(LeaseLostError);
    await lease.release();
    await holder!.sync('/');
    expect(await nodesUnder(operator!, path)).toHaveLength(1);
    expect(next.held).toBe(true);
    await next.release();
  });
});

describe('the single-node lock', () => {
  it('ShedLock: a release whose reply was lost never releases the lock of the next holder', async () => {
    const path = `${server.path('late-release')}/lock`;
    const [holder, other] = await connected(2);
    const lease = await new SingleNodeLock(holder!, path).acquire();
    const waiting = new SingleNodeLock(other!, path).acquire();
    currentWorld().loseReply('delete', holder);
    const [, next] = await Promise.all([lease.release(), waiting]);
    // Two round trips: long enough to read the node and to delete it.
    await holder!.sync('/');
    await holder!.sync('/');
    expect(next.held).toBe(true);
    expect((await other!.exists(path))!.ephemeralOwner).toBe((await other!.session()).id);
    await next.release();
  });

  it('rejects a node that is not ephemeral, and invalid paths', async () => {
    const client = await connect();
    const path = await client.create(server.path('foreign'), 'something else');
    await expect(new SingleNodeLock(client, path).acquire()).rejects.toThrow(RecipeConflictError);
    expect((await client.get(path)).data.toString()).toBe('something else');
    expect(() => new SingleNodeLock(client, '/')).toThrow(BadOptionError);
    expect(() => new SingleNodeLock(client, 'lock')).toThrow(BadOptionError);
  });
});

describe('the shared lock', () => {
  it('admits several readers, and excludes the ReadWriteLock of the same path', async () => {
    const path = server.path('readers');
    const [one, two] = await connected(2);
    const real = await new ReadWriteLock(one!, path).write.acquire();
    const waiting = new SharedLock(two!, path).read.acquire();
    await untilNodes(one!, path, 2);
    await real.release();
    const first = await waiting;
    const second = await new SharedLock(one!, path).read.acquire({ wait: 0 });
    for (const { write } of [new ReadWriteLock(one!, path), new SharedLock(two!, path)]) {
      await expect(write.acquire({ wait: 0 })).rejects.toThrow(LockBusyError);
    }
    await Promise.all([first.release(), second.release()]);
    await untilNothingLeft(server, one!, path);
  });

  it('queues a waiter again if its node is deleted, alone or together with the path', async () => {
    const path = server.path('deleted');
    const [holder, waiter] = await connected(2);
    const lease = await new SharedLock(holder!, path).write.acquire();
    const [held] = await nodesUnder(holder!, path);
    const waiting = new SharedLock(waiter!, path).write.acquire();
    const waits = async () => (await nodesUnder(holder!, path)).find((name) => name !== held);
    await untilNodes(holder!, path, 2);
    const first = await waits();
    await holder!.delete(`${path}/${first}`);
    await untilNodes(holder!, path, 2);
    // In one transaction, so that the waiter finds nothing when it reads.
    const nodes = [`${path}/${held}`, `${path}/${await waits()}`, path];
    await holder!.transaction(nodes.map((node) => ({ delete: node })));
    await (await waiting).release();
    expect(await aborted(lease.signal)).toBeInstanceOf(LeaseLostError);
  });

  it('re-enters along the call chain, lets a writer read, and rejects a reader that wants to write', async () => {
    const { read, write } = new SharedLock(await connect(), server.path('reentry'));
    await write.withLock(() => write.withLock(() => read.withLock(() => undefined)));
    await read.withLock(async () => {
      await expect(write.withLock(() => undefined)).rejects.toThrow(SelfDeadlockError);
    });
  });

  it('rejects a path that a mutex uses', async () => {
    const path = server.path('foreign');
    const client = await connect();
    await using _held = await new Mutex(client, path).acquire();
    await expect(new SharedLock(client, path).read.acquire()).rejects.toThrow(RecipeConflictError);
    await untilNodes(client, path, 1);
  });
});

describe.skipIf(serverHas.tokensWithoutWrite)('the shared lock that writes its token', () => {
  it('is acquired in the next session if the reply to the write is lost', async () => {
    const client = await connect();
    const first = client.sessionId!;
    currentWorld().loseReply('setData', client);
    const lease = await new SharedLock(client, server.path('lost-write')).write.acquire();
    expect(lease.held).toBe(true);
    expect(client.sessionId).not.toBe(first);
    await lease.release();
  });

  it('joins the queue again if its revocation was requested before the write', async () => {
    const path = server.path('revoked');
    const [holder, waiter] = await connected(2);
    const held = await new SharedLock(holder!, path).write.acquire();
    const before = await nodesUnder(holder!, path);
    const waiting = new SharedLock(waiter!, path).write.acquire();
    await untilNodes(holder!, path, 2);
    const waits = (await nodesUnder(holder!, path)).find((name) => !before.includes(name));
    await holder!.set(`${path}/${waits}`, REVOKE_MESSAGE);
    await held.release();
    const lease = await waiting;
    expect(await nodesUnder(holder!, path)).not.toContain(waits);
    await lease.release();
  });
});
