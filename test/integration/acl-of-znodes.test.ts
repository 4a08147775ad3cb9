import * as coordination from 'nestjs-zookeeper/coordination';
import * as recipes from 'nestjs-zookeeper/recipes';
import { describe, expect, vi } from 'vitest';
import type { ZkClient } from '../../lib/client/index.js';
import { DataTree } from '../../lib/embedded/data-tree.js';
import { useClients } from '../support/clients.js';
import { untilNodes } from '../support/recipe-nodes.js';
import { useServer } from '../support/servers.js';
import { afterEach, it } from '../support/virtual-time.js';

const server = useServer();
const connect = useClients(server);
afterEach(() => vi.restoreAllMocks());

const { LeaderLatch, LeaderSelector, MultiLock, Mutex, NonReentrantMutex } = recipes;
const { ReadWriteLock, Semaphore, SharedCount } = recipes;
const { DistributedAtomicLong, DistributedBarrier, DistributedDoubleBarrier } = coordination;
const { DistributedQueue, GroupMember, Partitioner } = coordination;
const { PersistentNode } = coordination;

const ACL = [{ scheme: 'auth' as const, id: '', permissions: 'cdrwa' }];
const STORED = [{ perms: 31, scheme: 'auth', id: '' }];
const OWNER = {
  auth: [{ scheme: 'digest' as const, user: 'shop', password: 'secret' }],
  acl: ACL,
};

type Creation = Parameters<DataTree['create']>[0];

/** Records each znode that the server creates, also those that exist for a moment only. */
function creations(): Creation[] {
  const recorded: Creation[] = [];
  const { create } = DataTree.prototype;
  vi.spyOn(DataTree.prototype, 'create').mockImplementation(function (this: DataTree, ...given) {
    recorded.push(given[0]);
    return create.apply(this, given);
  });
  return recorded;
}

type Use = (client: ZkClient, path: string, other: ZkClient) => Promise<unknown>;

/** For each class of the entry points: a function that creates all kinds of its znodes, and parts of their paths. */
const uses: Record<string, [use: Use, ...names: string[]]> = {
  Mutex: [
    async (client, path, other) => {
      const lease = await new Mutex(client, path).acquire();
      const waiting = new Mutex(other, path).acquire();
      await untilNodes(client, path, 2);
      await lease.transaction([{ create: `${path}-written` }]);
      await lease.release();
      await (await waiting).release();
    },
    ...['-lock-', '-written'],
  ],
  NonReentrantMutex: [(client, path) => held(new NonReentrantMutex(client, path)), '-lease-'],
  ReadWriteLock: [
    async (client, path) => {
      const { read, write } = new ReadWriteLock(client, path);
      await write.withLock(() => held(read));
      await held(read);
    },
    ...['__WRIT__', '__READ__'],
  ],
  Semaphore: [
    (client, path) => held(new Semaphore(client, path, { permits: 2 })),
    ...['/locks', '/leases', '-lock-', '-lease-'],
  ],
  MultiLock: [
    (client, path) =>
      held(new MultiLock([new Mutex(client, `${path}/a`), new Mutex(client, `${path}/b`)])),
    ...['/a', '/b'],
  ],
  SharedCount: [(client, path) => new SharedCount(client, `${path}/count`).set(3), '/count'],
  LeaderLatch: [
    async (client, path) => {
      const latch = new LeaderLatch(client, path);
      latch.start();
      await latch.await();
      await latch.term!.transaction([{ create: `${path}-written` }]);
      await latch.close();
    },
    ...['-latch-', '-written'],
  ],
  LeaderSelector: [
    async (client, path) => {
      await new Promise<void>((leads) => {
        new LeaderSelector(client, path, async () => leads()).start();
      });
    },
    '-lock-',
  ],
  DistributedAtomicLong: [
    (client, path) => new DistributedAtomicLong(client, `${path}/counter`).increment(),
    '/counter',
  ],
  DistributedBarrier: [
    (client, path) => new DistributedBarrier(client, `${path}/barrier`).setBarrier(),
    '/barrier',
  ],
  DistributedDoubleBarrier: [
    async (client, path, other) => {
      const members = [client, other].map((each) => new DistributedDoubleBarrier(each, path, 2));
      await Promise.all(members.map((member) => member.enter()));
      await Promise.all(members.map((member) => member.leave()));
    },
    '/ready',
  ],
  DistributedQueue: [
    async (client, path) => {
      const queue = new DistributedQueue(client, path, { lockPath: `${path}-locks` });
      await queue.put(Buffer.from('x'));
      await new Promise<void>((done) => queue.consume(() => done()));
      await queue.close();
    },
    ...['/queue-', '-locks', '-locks/queue-'],
  ],
  GroupMember: [
    (client, path) => startedAndClosed(new GroupMember(client, path, { id: 'a' }), client, path),
    '/a',
  ],
  Partitioner: [
    async (client, path) => {
      let owned = () => {};
      const partitioner = new Partitioner(client, path, () => owned(), { partitions: 1, id: 'a' });
      await new Promise<void>((resolve) => {
        owned = resolve;
        partitioner.start();
      });
      await partitioner.close();
    },
    ...['/members', '/members/a', '-lock-'],
  ],
  PersistentNode: [
    async (client, path) => {
      const modes = ['ephemeral', 'ephemeral-sequential', 'persistent'] as const;
      for (const mode of modes) {
        const node = new PersistentNode(client, `${path}/${mode}`, { mode });
        node.start();
        await node.waitForInitialCreate();
      }
      const withTtl = new PersistentNode(client, `${path}/ttl`, { ttl: 60_000 });
      await startedAndClosed(withTtl, client, `${path}/ttl`);
    },
    ...['/ephemeral', '-ephemeral-sequential', '/persistent', '/touch'],
  ],
  ZkClient: [
    async (client, path) => {
      await client.ensureContainers(`${path}/a/b`, { persistent: true });
      await client.create(`${path}/ttl`, '', { ttl: 60_000 });
      await client.transaction([{ create: `${path}/c` }]);
    },
    ...['/ttl', '/a', '/b', '/c'],
  ],
};

/** The classes that the classes above create themselves, one that creates no znode, and those that make recipes. */
const OTHERS = [
  ...['Candidate', 'Lock', 'ReadLock', 'WriteLock', 'ZkCache'],
  ...['CoordinationModule', 'CoordinationService', 'PartitionService'],
];

const held = (lock: { withLock(fn: () => void): Promise<void> }) => lock.withLock(() => undefined);

async function startedAndClosed(
  node: { start(): void; close(): Promise<void> },
  client: ZkClient,
  path: string,
) {
  node.start();
  await untilNodes(client, path, 1);
  await node.close();
}

describe('the option acl', () => {
  it.each(Object.entries(uses))(
    'applies to each znode of a %s from its creation',
    async (_, [use, ...names]) => {
      const [client, other] = [await connect(OWNER), await connect(OWNER)];
      const created = creations();
      await use(client, `${server.path('protected')}/recipe`, other);
      expect(created.filter(({ acl }) => JSON.stringify(acl) !== JSON.stringify(STORED))).toEqual(
        [],
      );
      const paths = created.map(({ path }) => path);
      for (const name of names) {
        expect.soft(paths, name).toContainEqual(expect.stringContaining(name));
      }
    },
  );

  it('is tested for each class of the entry points', () => {
    const isClass = (value: unknown) => /^class\b/.test(String(value));
    const classes = Object.entries({ ...recipes, ...coordination })
      .filter(([name, value]) => isClass(value) && !name.endsWith('Error'))
      .map(([name]) => name);
    expect(classes.sort()).toEqual([...Object.keys(uses), ...OTHERS].sort());
  });

  it('keeps a client without the credentials from reading, changing and adding to a counter', async () => {
    const client = await connect(OWNER);
    const anonymous = await connect();
    const path = `${server.path('protected')}/counter`;
    await new DistributedAtomicLong(client, path).increment();
    for (const attempt of [
      anonymous.get(path),
      anonymous.set(path, Buffer.alloc(8)),
      anonymous.create(`${path}/child`),
      anonymous.delete(path),
    ]) {
      await expect(attempt).rejects.toThrow(recipes.NotAuthorizedError);
    }
  });
});
