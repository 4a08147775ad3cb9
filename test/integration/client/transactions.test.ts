import { describe, expect } from 'vitest';
import {
  BadOptionError,
  ConnectionError,
  NodeError,
  NotAuthorizedError,
  ShuttingDownError,
  type TransactionOperation,
  type ZkClient,
} from '../../../lib/client/index.js';
import { useClients, useLinks } from '../../support/clients.js';
import { useServer } from '../../support/servers.js';
import { it } from '../../support/virtual-time.js';

const zk = useServer();
const newLink = useLinks(zk);
const connect = useClients(zk);
const reason = (error: unknown) => error;

async function parent(client: ZkClient, name: string): Promise<string> {
  return client.create(zk.path(name));
}

describe('a transaction', () => {
  it('carries out all operations, and resolves to a result for each', async () => {
    const client = await connect();
    const root = await parent(client, 'all');
    await client.create(`${root}/old`, 'old');
    const [created, sequential, container, set, deleted, checked] = await client.transaction([
      { create: `${root}/new`, data: 'new' },
      { create: `${root}/n-`, mode: 'persistent-sequential' },
      { create: `${root}/c`, mode: 'container' },
      { set: `${root}/new`, data: Uint8Array.of(1, 2), version: 0 },
      { delete: `${root}/old`, version: 0 },
      { check: root },
    ]);
    expect(created).toBe(`${root}/new`);
    expect(sequential).toBe(`${root}/n-0000000002`);
    expect(container).toBe(`${root}/c`);
    expect(set.version).toBe(1);
    expect([deleted, checked]).toEqual([undefined, undefined]);
    expect((await client.get(`${root}/new`)).data).toEqual(Buffer.from([1, 2]));
    expect((await client.children(root)).children.toSorted()).toEqual(['c', 'n-0000000002', 'new']);
  });

  it.each<[string, (root: string) => TransactionOperation, object]>([
    ['create', (root) => ({ create: root }), { code: 'NODE_EXISTS', serverCode: -110 }],
    ['create in nothing', (root) => ({ create: `${root}/x/y` }), { code: 'NO_NODE' }],
    ['set', (root) => ({ set: root, data: '', version: 7 }), { code: 'BAD_VERSION' }],
    ['delete', (root) => ({ delete: `${root}/none` }), { code: 'NO_NODE' }],
    ['check', (root) => ({ check: root, version: 3 }), { code: 'BAD_VERSION' }],
  ])('changes nothing if its %s fails, and names that operation', async (_, failing, expected) => {
    const client = await connect();
    const root = await parent(client, 'none');
    const operation = failing(root);
    const error = await client
      .transaction([{ create: `${root}/a` }, operation, { create: `${root}/b` }])
      .catch(reason);
    expect(error).toBeInstanceOf(NodeError);
    const [kind, path] = Object.entries(operation)[0]!;
    expect(error).toMatchObject({ ...expected, index: 1, path });
    expect((error as Error).message).toMatch(`${kind} ${path}: `);
    expect((await client.children(root)).children).toEqual([]);
  });

  it('has the chroot before its paths, but not in results and errors', async () => {
    const plain = await connect();
    const root = await parent(plain, 'chroot');
    const client = await connect({ connectString: zk.connectString + root });
    expect(await client.transaction([{ create: '/a' }, { check: '/' }])).toEqual(['/a', undefined]);
    expect((await plain.children(root)).children).toEqual(['a']);
    const error = await client.transaction([{ create: '/a' }]).catch(reason);
    expect(error).toMatchObject({ path: '/a', code: 'NODE_EXISTS' });
  });

  it('creates znodes with the ACL of the client, which refuses the transactions of others', async () => {
    const acl = [{ scheme: 'auth' as const, id: '', permissions: 'cdrwa' }];
    const auth = [{ scheme: 'digest' as const, user: 'u', password: 'p' }];
    const client = await connect({ acl, auth });
    const path = zk.path('acl');
    await client.transaction([{ create: path, data: 'secret' }]);
    expect((await client.get(path)).data.toString()).toBe('secret');
    const stranger = await (await connect()).session();
    const operations = [{ check: '/' }, { set: path, data: '' }];
    const error = await stranger.transaction(operations).catch(reason);
    expect(error).toBeInstanceOf(NotAuthorizedError);
    expect(error).toMatchObject({ index: 1, message: expect.stringContaining(path) });
  });

  it('creates ephemeral znodes of its session', async () => {
    const client = await connect();
    const path = zk.path('ephemeral');
    await client.transaction([{ create: path, mode: 'ephemeral' }]);
    expect((await client.exists(path))?.ephemeralOwner).toBe(client.sessionId);
  });

  it('creates znodes with a TTL', async () => {
    const client = await connect();
    const root = await parent(client, 'ttl');
    const results = await client.transaction([
      { create: `${root}/a`, ttl: 1 },
      { create: `${root}/b`, data: 'b' },
    ]);
    expect(results).toEqual([`${root}/a`, `${root}/b`]);
    await expect.poll(() => client.exists(`${root}/a`)).toBeUndefined();
    expect((await client.children(root)).children).toEqual(['b']);
  });

  it('may have large data, but not more than a request', async () => {
    const client = await connect();
    const root = await parent(client, 'large');
    const data = Buffer.alloc(500_000, 1);
    await client.transaction([
      { create: `${root}/a`, data },
      { create: `${root}/b`, data },
    ]);
    const tooLarge = client.transaction([
      { set: `${root}/a`, data },
      { set: `${root}/b`, data },
      { create: `${root}/c`, data: Buffer.alloc(50_000) },
    ]);
    await expect(tooLarge).rejects.toMatchObject({ option: 'operations', code: 'BAD_OPTION' });
  });

  it('of very many operations is applied', async () => {
    const client = await connect();
    const root = await parent(client, 'many');
    const operations = Array.from({ length: 1000 }, (_, i) => ({ create: `${root}/${i}` }));
    expect(await client.transaction(operations)).toHaveLength(1000);
    expect((await client.exists(root))?.numChildren).toBe(1000);
  });

  it('names the operation that failed, and the kinds of an operation that it refuses', async () => {
    const client = await connect();
    const path = zk.path('named');
    await expect(client.transaction([{ check: '/' }, { create: `${path}/a` }])).rejects.toThrow(
      `operations[1]: create ${path}/a: no node (-101); create its parent first`,
    );
    const has = (operation: object) => client.transaction([operation as never]);
    await expect(has({ create: '/a', set: '/b' })).rejects.toThrow(
      'operations[0] must be an object with one of create, set, delete, check, but has create, set',
    );
    await expect(has({ foo: 1 })).rejects.toThrow('but has foo');
    await expect(has({})).rejects.toThrow('but has none');
  });

  const bad: [string, unknown, string][] = [
    ['no array', { create: '/a' }, 'operations'],
    ['no operations', [], 'operations'],
    ['null', [null], 'operations[0]'],
    ['no kind', [{ check: '/' }, { path: '/a' }], 'operations[1]'],
    ['two kinds', [{ create: '/a', delete: '/b' }], 'operations[0]'],
    ['a relative path', [{ check: 'a' }], 'operations[0].check'],
    ['an option of another kind', [{ create: '/a', version: 1 }], 'version'],
    ['a wrong mode', [{ create: '/a', mode: 'lasting' }], 'operations[0].mode'],
    ['a wrong version', [{ check: '/a', version: -2 }], 'operations[0].version'],
    ['null as the version', [{ set: '/a', data: '', version: null }], 'operations[0].version'],
    ['wrong data', [{ create: '/a', data: 1 }], 'operations[0].data'],
    ['a set without data', [{ set: '/a' }], 'operations[0].data'],
  ];
  it.each(bad)('is refused with %s', async (_, operations, option) => {
    const client = await connect();
    const error = await client.transaction(operations as []).catch(reason);
    expect(error).toBeInstanceOf(BadOptionError);
    expect(error).toMatchObject({ option });
  });
});

describe('transactions and other requests of one turn', () => {
  it('about the same znodes are carried out in the order of the calls', async () => {
    const client = await connect();
    const root = await parent(client, 'order');
    // The creates wait for the group commit, and the listing for the transaction.
    await client.create(`${root}/known`);
    const results = await Promise.all([
      client.create(`${root}/1`),
      client.create(`${root}/2`),
      client.transaction([{ set: `${root}/1`, data: 'x', version: 0 }, { create: `${root}/3` }]),
      client.delete(`${root}/3`),
      client.delete(`${root}/2`),
      client.children(root),
      client.transaction([{ check: `${root}/1`, version: 1 }, { create: `${root}/2` }]),
      client.get(`${root}/1`),
    ]);
    expect(results[5].children.toSorted()).toEqual(['1', 'known']);
    expect(results[7].data.toString()).toBe('x');
    expect((await client.children(root)).children.toSorted()).toEqual(['1', '2', 'known']);
  });

  it('and changes come after a change of the same znode, also if a change that was sent with it fails', async () => {
    const client = await connect();
    const root = await parent(client, 'after');
    const other = await parent(client, 'failing');
    await client.create(`${root}/1`);
    const results = await Promise.allSettled([
      client.delete(`${root}/1`),
      client.transaction([{ create: `${root}/1` }]),
      client.delete(`${other}/none`),
    ]);
    expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled', 'rejected']);
    const later = await Promise.allSettled([
      client.delete(`${root}/1`),
      client.set(`${root}/1`, 'too late'),
      client.delete(`${other}/none`),
    ]);
    expect(later.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'rejected']);
  });

  it('a failed transaction does not affect the other transactions of one turn', async () => {
    const client = await connect();
    const root = await parent(client, 'alone');
    const results = await Promise.allSettled([
      client.create(`${root}/1`),
      client.transaction([{ check: `${root}/none` }]),
      client.create(`${root}/2`),
      client.delete(`${root}/none`),
      client.transaction([{ create: `${root}/3` }]),
    ]);
    expect(results.map(({ status }) => status)).toEqual([
      'fulfilled',
      'rejected',
      'fulfilled',
      'rejected',
      'fulfilled',
    ]);
  });
});

describe('a connection that breaks', () => {
  it('rejects a transaction, which may have been applied', async () => {
    const link = await newLink();
    const client = await connect({ connectString: link.connectString });
    const root = await parent(client, 'lost');
    await link.holdReplies();
    const pending = client.transaction([{ create: `${root}/a` }]).catch(reason);
    const other = await connect();
    await expect.poll(() => other.exists(`${root}/a`)).toBeDefined();
    await link.cut();
    const error = await pending;
    expect(error).toBeInstanceOf(ConnectionError);
    expect(error).toMatchObject({ maybeApplied: true });
    expect((error as Error).message).toContain(`transaction on ${root}/a:`);
    await expect.poll(() => client.connected).toBe(true);
    await client.transaction([{ delete: `${root}/a` }]);
  });
});

it('closing the client rejects its transactions', async () => {
  const client = await connect();
  const root = await parent(client, 'closed');
  const pending = client.transaction([{ create: `${root}/a` }]).catch(reason);
  await client.close();
  await pending;
  await expect(client.transaction([{ check: root }])).rejects.toBeInstanceOf(ShuttingDownError);
});
