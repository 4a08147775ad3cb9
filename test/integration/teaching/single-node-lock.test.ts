import { describe, expect, it } from 'vitest';
import {
  BadOptionError,
  RecipeConflictError,
  LeaseLostError,
  LockBusyError,
  LockTimeoutError,
  WaitCancelledError,
  type ZkClient,
} from 'nestjs-zookeeper/recipes';
import { SingleNodeLock } from '../../../lib/teaching/index.js';
import { aborted, untilState, useClients } from '../../support/clients.js';
import { expire } from '../../support/sessions.js';
import { Link } from '../../support/link.js';
import { useServer } from '../../support/servers.js';

const server = useServer();
const connect = useClients(server);

async function gone(client: ZkClient, path: string): Promise<void> {
  await expect.poll(() => client.exists(path)).toBeUndefined();
}

describe('the single-node lock', () => {
  it('admits one holder at a time, with increasing tokens, and leaves nothing behind', async () => {
    const path = server.path('single');
    const clients = await Promise.all([connect(), connect(), connect()]);
    const tokens: bigint[] = [];
    let inside = 0;
    let most = 0;
    await Promise.all(
      clients.flatMap((client) =>
        Array.from({ length: 8 }, () =>
          new SingleNodeLock(client, path).withLock(async (lease) => {
            most = Math.max(most, ++inside);
            tokens.push(lease.fencingToken);
            await new Promise(setImmediate);
            inside--;
          }),
        ),
      ),
    );
    expect(most).toBe(1);
    expect(tokens).toHaveLength(24);
    expect(tokens.toSorted((a, b) => (a < b ? -1 : 1))).toEqual(tokens);
    expect(new Set(tokens).size).toBe(24);
    await gone(clients[0]!, path);
    await expect.poll(() => server.watchCount()).toBe(0);
  });

  it('is an ephemeral node of the holder, below containers', async () => {
    const path = `${server.path('layout')}/a/lock`;
    const client = await connect();
    const lease = await new SingleNodeLock(client, path).acquire();
    expect((await client.exists(path))!.ephemeralOwner).toBe((await client.session()).id);
    expect(lease).toMatchObject({ key: path, path, held: true });
    const released = lease.release();
    expect(lease.held).toBe(false);
    await Promise.all([released, lease.release()]);
    expect(await client.exists(path)).toBeUndefined();
  });

  it('etcd 11360: excludes two holders of one session', async () => {
    const path = server.path('one-session');
    const client = await connect();
    const lease = await new SingleNodeLock(client, path).acquire();
    await expect(new SingleNodeLock(client, path).acquire({ wait: 0 })).rejects.toThrow(
      LockBusyError,
    );
    expect(lease.held).toBe(true);
    expect(await client.exists(path)).toBeDefined();
    await lease.release();
  });

  it('ends a wait at its timeout or its signal, and then acquires nothing', async () => {
    const path = server.path('waits');
    const [holder, other] = await Promise.all([connect(), connect()]);
    const lease = await new SingleNodeLock(holder, path).acquire();
    const lock = new SingleNodeLock(other, path);
    await expect(lock.acquire({ wait: 50 })).rejects.toThrow(LockTimeoutError);
    const controller = new AbortController();
    const waiting = lock.acquire({ signal: controller.signal });
    controller.abort(new Error('the customer left'));
    await expect(waiting).rejects.toThrow(WaitCancelledError);
    await expect(lock.acquire({ signal: AbortSignal.abort() })).rejects.toThrow(WaitCancelledError);
    await lease.release();
    // By now the server has answered everything that the ended waits had sent.
    await other.sync('/');
    expect(await other.exists(path)).toBeUndefined();
    await expect.poll(() => server.watchCount()).toBe(0);
  });

  it('is granted to the next waiter when the session of its holder expires, and the holder is notified', async () => {
    const path = server.path('expired');
    const [holder, other] = await Promise.all([connect(), connect()]);
    const lease = await new SingleNodeLock(holder, path).acquire();
    const waiting = new SingleNodeLock(other, path).acquire();
    await expire(await holder.session(), server.port);
    const next = await waiting;
    expect(await aborted(lease.signal)).toBeInstanceOf(LeaseLostError);
    expect(next.fencingToken).toBeGreaterThan(lease.fencingToken);
    await lease.release();
    expect(next.held).toBe(true);
    expect(await other.exists(path)).toBeDefined();
    await next.release();
  });

  it('is granted in the next session when the session of the waiter expires', async () => {
    const path = server.path('waiter-expired');
    const [holder, waiter] = await Promise.all([connect(), connect()]);
    const lease = await new SingleNodeLock(holder, path).acquire();
    const waiting = new SingleNodeLock(waiter, path).acquire();
    // The holder watches its node too.
    await expect.poll(() => server.watchCount()).toBe(2);
    const before = await waiter.session();
    await expire(before, server.port);
    await expect.poll(() => waiter.session()).not.toBe(before);
    await lease.release();
    const granted = await waiting;
    expect((await waiter.exists(path))!.ephemeralOwner).toBe((await waiter.session()).id);
    await granted.release();
  });

  it('is lost if its node is deleted, and release() does not delete the node of the next holder', async () => {
    const path = server.path('by-hand');
    const [holder, operator] = await Promise.all([connect(), connect()]);
    const lease = await new SingleNodeLock(holder, path).acquire();
    await operator.delete(path);
    const next = await new SingleNodeLock(operator, path).acquire();
    expect(await aborted(lease.signal)).toBeInstanceOf(LeaseLostError);
    await lease.release();
    await holder.sync('/');
    expect((await operator.exists(path))!.ephemeralOwner).toBe((await operator.session()).id);
    expect(next.held).toBe(true);
    await next.release();
  });

  it('ShedLock: a release whose reply was lost never releases the lock of the next holder', async () => {
    const path = server.path('late-release');
    await using link = await Link.to(server.port);
    const [holder, other] = await Promise.all([
      connect({ connectString: link.connectString }),
      connect(),
    ]);
    const lease = await new SingleNodeLock(holder, path).acquire();
    const waiting = new SingleNodeLock(other, path).acquire();
    const session = await holder.session();
    // Loses the reply to the delete, not to the read before it.
    const { delete: send } = session;
    session.delete = async (...args) => {
      session.delete = send;
      await link.deafen();
      return send.apply(session, args);
    };
    const released = lease.release();
    const next = await waiting;
    await link.cut();
    await released;
    await untilState(holder, 'RECONNECTED');
    // Two round trips: long enough to read the node and to delete it.
    await holder.sync('/');
    await holder.sync('/');
    expect(next.held).toBe(true);
    expect((await other.exists(path))!.ephemeralOwner).toBe((await other.session()).id);
    await next.release();
    await holder.close();
  });

  it('is acquired once although the reply to the create was lost', async () => {
    const path = server.path('lost-create');
    await using link = await Link.to(server.port);
    const [client, observer] = await Promise.all([
      connect({ connectString: link.connectString }),
      connect(),
    ]);
    await link.deafen();
    const acquiring = new SingleNodeLock(client, path).acquire();
    await expect.poll(() => observer.exists(path)).toBeDefined();
    const { czxid } = (await observer.exists(path))!;
    await link.cut();
    const lease = await acquiring;
    expect((await observer.exists(path))!.czxid).toBe(czxid);
    await lease.release();
    expect(await observer.exists(path)).toBeUndefined();
    await client.close();
  });

  it('leaves no node if the wait ends before the reply to the create arrives', async () => {
    const path = server.path('cancelled-create');
    await using link = await Link.to(server.port);
    const [client, observer] = await Promise.all([
      connect({ connectString: link.connectString }),
      connect(),
    ]);
    await link.deafen();
    const controller = new AbortController();
    const acquiring = new SingleNodeLock(client, path).acquire({ signal: controller.signal });
    await expect.poll(() => observer.exists(path)).toBeDefined();
    controller.abort();
    await expect(acquiring).rejects.toThrow(WaitCancelledError);
    await link.cut();
    await gone(observer, path);
    await client.close();
  });

  it('rejects a node that is not ephemeral, and invalid paths and waits', async () => {
    const path = server.path('foreign');
    const client = await connect();
    await client.create(path, 'something else');
    await expect(new SingleNodeLock(client, path).acquire()).rejects.toThrow(RecipeConflictError);
    expect((await client.get(path)).data.toString()).toBe('something else');
    expect(() => new SingleNodeLock(client, '/')).toThrow(BadOptionError);
    expect(() => new SingleNodeLock(client, 'lock')).toThrow(BadOptionError);
    await expect(new SingleNodeLock(client, path).acquire({ wait: -1 })).rejects.toThrow(
      BadOptionError,
    );
  });
});
