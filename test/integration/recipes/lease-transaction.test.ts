import { describe, expect } from 'vitest';
import {
  ConnectionError,
  LeaderLatch,
  type Lease,
  LeaseLostError,
  MultiLock,
  Mutex,
  NodeError,
  NotLeaderError,
  ReadWriteLock,
  Semaphore,
  type ZkClient,
} from '../../../lib/recipes/index.js';
import { useClients, useLinks } from '../../support/clients.js';
import { failureOf, nodesUnder, untilNodes } from '../../support/recipe-nodes.js';
import { serverHas, useServer } from '../../support/servers.js';
import { it } from '../../support/virtual-time.js';

const zk = useServer();
const newLink = useLinks(zk);
const connect = useClients(zk);

/** Returns a znode to write. */
async function target(client: ZkClient): Promise<string> {
  return client.create(zk.path('target'), 'old');
}

const read = async (client: ZkClient, path: string) => {
  await client.sync(path);
  return (await client.get(path)).data.toString();
};

describe('a transaction of a lease', () => {
  const recipes: [string, (client: ZkClient, path: string) => Promise<Lease>][] = [
    ['mutex', (client, path) => new Mutex(client, path).acquire()],
    ['strict mutex', (client, path) => new Mutex(client, path).acquire({ fairness: 'strict' })],
    ['read lock', (client, path) => new ReadWriteLock(client, path).read.acquire()],
    ['write lock', (client, path) => new ReadWriteLock(client, path).write.acquire()],
    [
      'semaphore',
      (client, path) => new Semaphore(client, path, { permits: 4 }).acquire({ count: 2 }),
    ],
    [
      'multi-lock',
      (client, path) => {
        return new MultiLock([
          new Mutex(client, `${path}-a`),
          new Mutex(client, `${path}-b`),
        ]).acquire();
      },
    ],
    [
      'downgraded write lock',
      async (client, path) => {
        const lock = new ReadWriteLock(client, path);
        return lock.downgrade(await lock.write.acquire());
      },
    ],
  ];

  it.each(recipes)('of a %s is applied while it is held, and not afterwards', async (_, take) => {
    const [client, other] = await Promise.all([connect(), connect()]);
    const node = await target(client);
    const path = zk.path('lock');
    const lease = await take(client, path);
    const [stat, created, nothing] = await lease.transaction([
      { set: node, data: 'new', version: 0 },
      { create: `${node}/child` },
      { check: node, version: 1 },
    ]);
    expect([stat.version, created, nothing]).toEqual([1, `${node}/child`, undefined]);
    expect(await read(client, node)).toBe('new');
    expect(await lease.transaction([])).toEqual([]);
    await lease.release();
    const error = await failureOf(lease.transaction([{ set: node, data: 'late' }]));
    expect(error).toBeInstanceOf(LeaseLostError);
    expect(error).toMatchObject({ message: expect.stringContaining('released') });

    const deleted = await take(client, path);
    for (const parent of [path, `${path}/leases`, `${path}-b`]) {
      const own = (await nodesUnder(other, parent)).filter((name) => name.startsWith('_c_'));
      if (own.length > 0) await other.delete(`${parent}/${own.at(-1)}`);
    }
    // Sent at once: a watch has not reported the deletion.
    const refused = await failureOf(deleted.transaction([{ set: node, data: 'late' }]));
    expect(refused).toBeInstanceOf(LeaseLostError);
    expect(await read(client, node)).toBe('new');
    expect(deleted.held).toBe(false);
    expect(deleted.signal.reason).toBeInstanceOf(LeaseLostError);
    await deleted.release();
  });

  it('that fails for another reason leaves the lease held, and has the index of the operation', async () => {
    const client = await connect();
    const node = await target(client);
    const lease = await new Mutex(client, zk.path('lock')).acquire();
    const error = await failureOf(
      lease.transaction([{ check: node }, { set: node, data: '', version: 5 }]),
    );
    expect(error).toBeInstanceOf(NodeError);
    expect(error).toMatchObject({ code: 'BAD_VERSION', index: 1, path: node });
    const bad = await failureOf(lease.transaction([{ check: node }, { check: 'x' }]));
    expect(bad).toMatchObject({ code: 'BAD_OPTION', option: 'operations[1].check' });
    expect(lease.held).toBe(true);
    await lease.transaction([{ set: node, data: 'new' }]);
  });

  it('whose reply is lost may be applied, and the znode of its lease is not handed over', async () => {
    const link = await newLink();
    const client = await connect({ connectString: link.connectString });
    const other = await connect();
    const node = await target(other);
    const path = zk.path('lock');
    const lock = new Mutex(client, path);
    const first = await lock.acquire();
    await first.transaction([]);
    const [name] = await nodesUnder(other, path);
    const next = lock.acquire();
    await link.holdReplies();
    const pending = failureOf(first.transaction([{ set: node, data: 'new' }]));
    await expect.poll(() => read(other, node)).toBe('new');
    await link.cut();
    const error = await pending;
    expect(error).toBeInstanceOf(ConnectionError);
    expect(error).toMatchObject({ maybeApplied: true });
    expect(first.held).toBe(true);
    await expect.poll(() => client.connected).toBe(true);
    await first.release();
    const second = await next;
    await other.sync(path);
    expect(await nodesUnder(other, path)).not.toContain(name);
    expect(second.held).toBe(true);
  });

  it('that is under way at the release is applied, and the znode of its lease is not handed over', async () => {
    const [client, other] = await Promise.all([connect(), connect()]);
    const node = await target(client);
    const lock = new Mutex(client, zk.path('lock'));
    const first = await lock.acquire();
    const [name] = await nodesUnder(other, lock.path);
    const next = lock.acquire();
    const writing = first.transaction([{ set: node, data: 'new' }]);
    // In the next turn the transaction has been sent.
    await new Promise(setImmediate);
    await first.release();
    await writing;
    await using _second = await next;
    expect(await read(other, node)).toBe('new');
    expect(await nodesUnder(other, lock.path)).not.toContain(name);
  });

  it.runIf(serverHas.sessionResume)(
    'waits for the connection, and is refused if the lease is lost meanwhile',
    async () => {
      const link = await newLink();
      const client = await connect({
        connectString: link.connectString,
        sessionTimeout: 2000,
        retry: { type: 'forever', delay: 20 },
      });
      const other = await connect();
      const node = await target(other);
      const lease = await new Mutex(client, zk.path('lock')).acquire();
      await lease.transaction([]);
      await link.down();
      await expect.poll(() => client.connected).toBe(false);
      const write = lease.transaction([{ set: node, data: 'waited' }]);
      await link.up();
      await write;
      expect(await read(other, node)).toBe('waited');
      await link.down();
      await expect.poll(() => client.connected).toBe(false);
      const late = failureOf(lease.transaction([{ set: node, data: 'late' }]));
      await expect.poll(() => lease.held).toBe(false);
      await link.up();
      expect(await late).toBeInstanceOf(LeaseLostError);
      expect(await read(other, node)).toBe('waited');
    },
  );

  it('during holdAtLeast, after the release, is refused', async () => {
    const client = await connect();
    const node = await target(client);
    const path = zk.path('lock');
    const lease = await new Mutex(client, path).acquire({ holdAtLeast: 60_000 });
    await lease.release();
    expect(await nodesUnder(client, path)).toHaveLength(1);
    const error = await failureOf(lease.transaction([{ set: node, data: 'late' }]));
    expect(error).toBeInstanceOf(LeaseLostError);
    expect(await read(client, node)).toBe('old');
  });

  it('of a multi-lock over two clients is an error', async () => {
    const [one, other] = [await connect(), await connect()];
    const path = zk.path('lock');
    const locks = [new Mutex(one, `${path}-a`), new Mutex(other, `${path}-b`)];
    const lease = await new MultiLock(locks).acquire();
    const error = await failureOf(lease.transaction([]));
    expect(error).toMatchObject({ code: 'ILLEGAL_STATE' });
  });
});

describe('a transaction of a term', () => {
  it('is applied while it leads, and not afterwards', async () => {
    const client = await connect();
    const node = await target(client);
    const path = zk.path('election');
    const latch = new LeaderLatch(client, path);
    latch.start();
    const term = await latch.await();
    await term.transaction([{ set: node, data: 'leader' }]);
    const other = await connect();
    const [name] = await nodesUnder(other, path);
    await other.delete(`${path}/${name}`);
    const error = await failureOf(term.transaction([{ set: node, data: 'late' }]));
    expect(error).toBeInstanceOf(NotLeaderError);
    expect(term.active).toBe(false);
    expect(await read(client, node)).toBe('leader');
    const second = await latch.await();
    await latch.close();
    expect(await failureOf(second.transaction([{ set: node, data: 'late' }]))).toBeInstanceOf(
      NotLeaderError,
    );
    await untilNodes(client, path, 0);
  });
});
