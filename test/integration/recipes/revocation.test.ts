import { describe, expect } from 'vitest';
import {
  LockRevokedError,
  Mutex,
  NonReentrantMutex,
  ReadWriteLock,
  revoke,
  Semaphore,
  type ZkClient,
} from 'nestjs-zookeeper/recipes';
import { aborted, expire, useClients } from '../../support/clients.js';
import { nodesUnder, untilNothingLeft, untilNodes } from '../../support/recipe-nodes.js';
import { useServer } from '../../support/servers.js';
import { beforeEach, it } from '../../support/virtual-time.js';

const server = useServer();
const connect = useClients(server);

let path: string;
let client: ZkClient;
let other: ZkClient;
beforeEach(async () => {
  path = server.path('revocation');
  [client, other] = await Promise.all([connect(), connect()]);
});

describe('a revocation request', () => {
  it('aborts the revocation signal of the holder, which keeps the lock', async () => {
    const lease = await new Mutex(client, path).acquire();
    const { revocation } = lease;
    expect(revocation.aborted).toBe(false);
    await new Mutex(other, path).revoke();
    const reason = await aborted(revocation);
    expect(reason).toBeInstanceOf(LockRevokedError);
    expect(reason).toMatchObject({ code: 'REVOKED', message: expect.stringContaining(path) });
    expect(lease.held).toBe(true);
    expect(lease.signal.aborted).toBe(false);
    const waiting = new Mutex(other, path).acquire();
    await lease.release();
    await (await waiting).release();
    await untilNothingLeft(server, client, path);
  });

  it('of a waiter is reported when the waiter is granted the lock', async () => {
    const lock = new Mutex(client, path);
    const held = await lock.acquire();
    const waiting = new Mutex(other, path).acquire();
    await untilNodes(client, path, 2);
    const [, second] = await lock.participants();
    await revoke(client, second!);
    expect(held.revocation.aborted).toBe(false);
    await held.release();
    const lease = await waiting;
    expect(await aborted(lease.revocation)).toBeInstanceOf(LockRevokedError);
    await lease.release();
  });

  it('of a node whose first waiter left is not overwritten by the next waiter', async () => {
    const held = await new Mutex(client, path).acquire();
    const controller = new AbortController();
    const mutex = new Mutex(other, path);
    const first = mutex.acquire({ signal: controller.signal, details: { name: 'first' } });
    const second = mutex.acquire({ details: { name: 'second' } });
    await untilNodes(client, path, 2);
    await revoke(client, (await mutex.participants())[1]!);
    controller.abort();
    await expect(first).rejects.toMatchObject({ code: 'CANCELLED' });
    await held.release();
    const lease = await second;
    await aborted(lease.revocation);
    await lease.release();
  });

  it('of a znode that is no participant is refused, and changes nothing', async () => {
    const plain = await client.create(`${server.path('plain')}-0000000001`, 'data');
    const member = await client.create(server.path('member'), 'data', { mode: 'ephemeral' });
    for (const each of [plain, member]) {
      await expect(revoke(other, { path: each })).rejects.toMatchObject({
        option: 'participant.path',
      });
      expect((await client.get(each)).data.toString()).toBe('data');
    }
  });

  it('of a participant that has left is not an error', async () => {
    const lease = await new Mutex(client, path).acquire();
    const [holder] = await new Mutex(other, path).participants();
    await lease.release();
    await revoke(other, holder!);
    await revoke(other, { path: `${path}/never-there` });
    await new Mutex(other, path).revoke();
    await new Mutex(other, server.path('nowhere')).revoke();
    expect(await nodesUnder(other, path)).toEqual([]);
  });

  it('reaches one participant, or all holders, and no waiters', async () => {
    const clients = await Promise.all([connect(), connect(), connect()]);
    const [one, two, writer] = clients.map((client) => new ReadWriteLock(client, path));
    const leases = [await one!.read.acquire(), await two!.read.acquire()];
    const waiting = writer!.write.acquire();
    await untilNodes(clients[0]!, path, 3);
    const [, second] = await one!.read.participants();
    await revoke(clients[2]!, second!);
    await aborted(leases[1]!.revocation);
    expect(leases[0]!.revocation.aborted).toBe(false);
    await writer!.write.revoke();
    await aborted(leases[0]!.revocation);
    await Promise.all(leases.map((lease) => lease.release()));
    const granted = await waiting;
    const { revocation } = granted;
    await clients[2]!.sync(path);
    expect(revocation.aborted).toBe(false);
    await granted.release();
  });

  it('reaches the holders of permits and of a non-reentrant mutex', async () => {
    const semaphore = new Semaphore(client, path, { permits: 3 });
    const leases = [await semaphore.acquire({ count: 2 }), await semaphore.acquire()];
    const single = await new NonReentrantMutex(client, `${path}-single`).acquire();
    await new Semaphore(other, path, { permits: 3 }).revoke();
    await new NonReentrantMutex(other, `${path}-single`).revoke();
    for (const lease of [...leases, single]) {
      expect(await aborted(lease.revocation)).toBeInstanceOf(LockRevokedError);
      expect(lease.held).toBe(true);
      await lease.release();
    }
  });

  it('is visible in participants() and to a re-entered call', async () => {
    const mutex = new Mutex(client, path);
    await mutex.withLock(
      (outer) =>
        mutex.withLock(async (inner) => {
          const before = await new Mutex(other, path).participants();
          expect(before[0]).toMatchObject({ revoked: false, details: { name: 'job' } });
          await revoke(other, before[0]!);
          await Promise.all([aborted(outer.revocation), aborted(inner.revocation)]);
          const after = await new Mutex(other, path).participants();
          // The request has replaced the details in the znode, but the process of the holder knows them.
          expect(after[0]).toMatchObject({ ...before[0], revoked: true });
        }),
      { details: { name: 'job' } },
    );
  });

  it('does not reach a lease that was released or lost before', async () => {
    const released = await new Mutex(client, path).acquire();
    const { revocation } = released;
    await released.release();
    const lost = await new Mutex(client, path).acquire();
    await expire(client, server);
    await aborted(lost.signal);
    await using next = await new Mutex(other, path).acquire();
    await new Mutex(other, path).revoke();
    await aborted(next.revocation);
    expect([revocation.aborted, lost.revocation.aborted]).toEqual([false, false]);
  });

  it('may be made by any client that writes Curator\u2019s __REVOKE__ into the node', async () => {
    const lease = await new Mutex(client, path).acquire();
    const { revocation } = lease;
    const [node] = await nodesUnder(other, path);
    await other.set(`${path}/${node}`, 'something else');
    await other.set(`${path}/${node}`, '__REVOKE__');
    await aborted(revocation);
    await lease.release();
    await untilNothingLeft(server, client, path);
  });
});
