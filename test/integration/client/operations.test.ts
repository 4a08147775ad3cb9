import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect } from 'vitest';
import {
  BadOptionError,
  NodeError,
  NotAuthorizedError,
  ShuttingDownError,
  type ZkClient,
} from '../../../lib/client/index.js';
import { useClients } from '../../support/clients.js';
import { useServer } from '../../support/servers.js';
import { beforeEach, it } from '../../support/virtual-time.js';

const zk = useServer();
const connect = useClients(zk);

let path: string;
let client: ZkClient;
let other: ZkClient;
beforeEach(async () => {
  path = zk.path('operations');
  [client, other] = await Promise.all([connect(), connect()]);
});

describe('operations', () => {
  it('create, get, set, exists, children, sync and delete work as documented', async () => {
    const root = zk.path('crud');
    expect(await client.create(root, 'one')).toBe(root);
    const first = await client.get(root);
    expect(first.data.toString()).toBe('one');
    expect(first.stat).toMatchObject({ version: 0, ephemeralOwner: '0', dataLength: 3 });
    expect(Math.abs(first.stat.ctime - Date.now())).toBeLessThan(10_000);
    expect(await client.set(root, new Uint8Array([0, 255]), 0)).toMatchObject({ version: 1 });
    expect([...(await client.get(root)).data]).toEqual([0, 255]);
    await client.create(`${root}/b`);
    await client.create(`${root}/a`);
    const { children, stat } = await client.children(root);
    expect(children.sort()).toEqual(['a', 'b']);
    expect(stat.numChildren).toBe(2);
    await client.sync(root);
    await client.delete(`${root}/a`);
    expect(await client.exists(`${root}/a`)).toBeUndefined();
    expect(await client.exists(`${root}/b`)).toMatchObject({ version: 0 });
  });

  it('data that is omitted is empty, and is read as an empty buffer', async () => {
    const path = await client.create(zk.path('empty'));
    expect((await client.get(path)).data).toEqual(Buffer.alloc(0));
  });

  it('names may contain every character that ZooKeeper allows', async () => {
    const path = await client.create(zk.path('é 日本 %2F'), 'ü');
    expect((await client.children('/')).children).toContain(path.slice(1));
  });

  it('sequential nodes get increasing numbers, and ephemeral nodes have the id of the session', async () => {
    const session = await client.session();
    const root = await client.create(zk.path('modes'));
    const first = await client.create(`${root}/n-`, '', { mode: 'ephemeral-sequential' });
    const second = await client.create(`${root}/n-`, '', { mode: 'persistent-sequential' });
    expect([first, second]).toEqual([`${root}/n-0000000000`, `${root}/n-0000000001`]);
    expect(await client.exists(first)).toMatchObject({ ephemeralOwner: session.id });
    await client.create(`${root}/e`, '', { mode: 'ephemeral' });
    await client.close();
    expect((await other.children(root)).children).toEqual(['n-0000000001']);
  });

  it('a container is deleted some time after its last child', async () => {
    const path = await client.create(zk.path('container'), '', { mode: 'container' });
    await client.delete(await client.create(`${path}/child`));
    await expect.poll(() => client.exists(path)).toBeUndefined();
  });

  it('a megabyte of data is transferred correctly, repeatedly', async () => {
    const data = Buffer.alloc(1_000_000, 7);
    const path = await client.create(zk.path('large'), data);
    for (let i = 0; i < 3; i++) expect((await client.get(path)).data.equals(data)).toBe(true);
    await client.delete(path);
  });

  it('each error of the server has its own code', async () => {
    const root = await client.create(zk.path('codes'));
    const ephemeral = await client.create(`${root}/e`, '', { mode: 'ephemeral' });
    const refusals = await Promise.allSettled([
      client.get(`${root}/none`),
      client.create(root),
      client.set(root, '', 5),
      client.delete(root),
      client.create(`${ephemeral}/x`),
    ]);
    expect(
      refusals.map((refusal) => refusal.status === 'rejected' && refusal.reason),
    ).toMatchObject([
      { code: 'NO_NODE', serverCode: -101, path: `${root}/none` },
      { code: 'NODE_EXISTS', serverCode: -110, path: root },
      { code: 'BAD_VERSION', serverCode: -103 },
      { code: 'NOT_EMPTY', serverCode: -111 },
      { code: 'NO_CHILDREN_FOR_EPHEMERALS', serverCode: -108 },
    ]);
    for (const refusal of refusals) {
      expect(refusal.status === 'rejected' && refusal.reason).toBeInstanceOf(NodeError);
    }
  });

  it('a create and the listing sent after it take one round trip', async () => {
    const session = await (await connect()).session();
    const root = await session.create(zk.path('flight'));
    for (let i = 0; i < 20; i++) {
      const [created, { children }] = await Promise.all([
        session.create(`${root}/n-`, '', { mode: 'ephemeral-sequential' }),
        session.children(root),
      ]);
      expect(children).toContain(created.slice(root.length + 1));
    }
  });

  it('replies arrive in the order of the requests', async () => {
    const session = await (await connect()).session();
    const path = await session.create(zk.path('order'));
    const seen: number[] = [];
    await Promise.all(
      Array.from({ length: 100 }, (_, i) =>
        (i % 3 ? session.exists(path) : session.set(path, String(i))).then(() => seen.push(i)),
      ),
    );
    expect(seen).toEqual(Array.from({ length: 100 }, (_, i) => i));
  });
});

describe('a chroot', () => {
  it('is prepended to every path and removed from every result', async () => {
    const plain = await connect();
    const chroot = await plain.create(zk.path('chroot'));
    const client = await connect({ connectString: `${zk.connectString}${chroot}` });
    expect(await client.create('/a')).toBe('/a');
    const created = await client.create('/a/n-', '', { mode: 'persistent-sequential' });
    expect(created).toBe('/a/n-0000000000');
    expect((await client.children('/')).children).toEqual(['a']);
    expect(await plain.exists(`${chroot}/a/n-0000000000`)).toBeDefined();
    await expect(client.get('/b')).rejects.toMatchObject({ path: '/b' });
    const { watch } = await client.watchChildren('/');
    await plain.create(`${chroot}/b`);
    expect(await watch.fired).toBe('child');
  });

  it('need not exist for ensureContainers()', async () => {
    const chroot = `${zk.path('late')}/chroot`;
    const client = await connect({ connectString: `${zk.connectString}${chroot}` });
    await expect(client.create('/a')).rejects.toMatchObject({ code: 'NO_NODE' });
    await client.ensureContainers('/a');
    expect(await client.create('/a/b')).toBe('/a/b');
  });
});

describe('ensureContainers', () => {
  it('creates missing directories as containers, and accepts existing ones', async () => {
    const root = await client.create(zk.path('mkdir'));
    await client.ensureContainers(`${root}/a/b/c`);
    await client.ensureContainers(`${root}/a/b/c`);
    await client.ensureContainers('/');
    const child = await client.create(`${root}/a/b/c/d`);
    expect(await client.exists(root)).toMatchObject({ numChildren: 1 });
    await client.delete(child);
    await expect.poll(() => client.exists(`${root}/a`)).toBeUndefined();
    await client.ensureContainers(`${root}/a/b/c`);
    expect(await client.exists(`${root}/a/b/c`)).toBeDefined();
  });

  it('creates one path when many calls run at once', async () => {
    const clients = await Promise.all([connect(), connect(), connect()]);
    const path = `${zk.path('together')}/a/b/c`;
    await Promise.all(Array.from({ length: 30 }, (_, i) => clients[i % 3].ensureContainers(path)));
    expect(await clients[0].exists(path)).toBeDefined();
  });

  const auth = [{ scheme: 'digest' as const, user: 'shop', password: 'secret' }];
  const acl = [{ scheme: 'auth' as const, id: '', permissions: 'cdrwa' }];

  it('keeps a namespace with an ACL, so that no other client can create or delete it', async () => {
    const namespace = zk.path('kept');
    const owner = await connect({ namespace, auth, acl });
    const stranger = await connect();
    const path = `${namespace}/locks/a`;
    await owner.ensureContainers(path);
    await owner.delete(await owner.create(`${path}/child`));
    await expect.poll(() => owner.exists(path)).toBeUndefined();
    expect(await owner.exists(`${namespace}/locks`)).toBeDefined();
    await expect(stranger.delete(namespace)).rejects.toMatchObject({ code: 'NOT_EMPTY' });
  });

  it('keeps a directory directly below such a namespace too, if it is the first that is created', async () => {
    const namespace = zk.path('first');
    const owner = await connect({ namespace, auth, acl });
    await owner.ensureContainers(`${namespace}/barriers`);
    await owner.delete(await owner.create(`${namespace}/barriers/child`));
    const [reaped, other] = [zk.path('reaped'), await connect()];
    await other.ensureContainers(reaped);
    await other.delete(await other.create(`${reaped}/child`));
    await expect.poll(() => other.exists(reaped)).toBeUndefined();
    expect(await owner.exists(`${namespace}/barriers`)).toBeDefined();
  });

  it('sets the ACL on each directory that it creates, and on no existing one', async () => {
    const owner = await connect({ auth, acl });
    const stranger = await connect();
    const root = await stranger.create(zk.path('acl'));
    await owner.ensureContainers(`${root}/a/b`);
    await owner.create(`${root}/a/b/child`);
    for (const path of [`${root}/a`, `${root}/a/b`]) {
      await expect(stranger.create(`${path}/x`)).rejects.toBeInstanceOf(NotAuthorizedError);
      await expect(stranger.children(path)).rejects.toBeInstanceOf(NotAuthorizedError);
    }
    expect(await stranger.create(`${root}/x`)).toBe(`${root}/x`);
    expect(await owner.exists(root)).toMatchObject({ aversion: 0 });
  });

  it('creates a directory with its ACL, so that other identities never add a child', async () => {
    const owner = await connect({
      auth: [{ scheme: 'digest', user: 'owner', password: 'secret' }],
      acl: [{ scheme: 'auth', id: '', permissions: 'rwcda' }],
    });
    const stranger = await (await connect()).session();
    for (let round = 0; round < 5; round++) {
      const path = zk.path('guarded');
      let over = false;
      const attempts: Promise<unknown>[] = [];
      // Tries to add a child from before the node exists, to hit a gap between the create and the ACL.
      const intrude = (async () => {
        while (!over) {
          attempts.push(stranger.create(`${path}/intruder`).catch((error: unknown) => error));
          await delay(0);
        }
      })();
      await owner.ensureContainers(path);
      over = true;
      await intrude;
      const late = await stranger.create(`${path}/late`).catch((error: unknown) => error);
      expect(late).toBeInstanceOf(NotAuthorizedError);
      const codes = (await Promise.all(attempts)).map((error) => (error as { code: string }).code);
      expect(codes.filter((code) => code !== 'NO_NODE' && code !== 'NOT_AUTHORIZED')).toEqual([]);
    }
  });

  it('rejects if the client is closed meanwhile, and creates nothing', async () => {
    const acl = [{ scheme: 'world' as const, id: 'anyone', permissions: 'cdrwa' }];
    const client = await connect({ acl });
    const created = client.ensureContainers(path);
    const closed = client.close();
    await expect(created).rejects.toBeInstanceOf(ShuttingDownError);
    await closed;
    expect(await (await connect()).exists(path)).toBeUndefined();
  });

  it('accepts an existing directory in a parent where the client may not create', async () => {
    const client = await connect();
    const root = await client.create(zk.path('no-create'));
    await client.create(`${root}/a`);
    await client.setAcl(root, [{ scheme: 'world', id: 'anyone', permissions: 'r' }]);
    await client.ensureContainers(`${root}/a`);
    await client.ensureContainers(`${root}/a/b`);
    expect(await client.exists(`${root}/a/b`)).toBeDefined();
    for (const missing of [`${root}/b`, `${root}/b/c`]) {
      await expect(client.ensureContainers(missing)).rejects.toBeInstanceOf(NotAuthorizedError);
    }
  });

  it('rejects with a clear error if a parent cannot have children', async () => {
    const path = await client.create(zk.path('ephemeral'), '', { mode: 'ephemeral' });
    await expect(client.ensureContainers(`${path}/a`)).rejects.toMatchObject({
      code: 'NO_CHILDREN_FOR_EPHEMERALS',
    });
  });
});

describe('access', () => {
  it('is refused without the credentials in the ACL, and granted with them', async () => {
    const auth = [{ scheme: 'digest' as const, user: 'a', password: 'right' }];
    const owner = await connect({ auth });
    const path = await owner.create(zk.path('private'), 'x');
    await owner.setAcl(path, [{ scheme: 'auth', id: '', permissions: 'rw' }], 0);
    expect((await owner.get(path)).data.toString()).toBe('x');
    const wrong = await connect({ auth: [{ ...auth[0], password: 'wrong' }] });
    await expect(wrong.get(path)).rejects.toMatchObject({ code: 'NOT_AUTHORIZED' });
    await expect(
      owner.setAcl(path, [{ scheme: 'world', id: 'anyone', permissions: 'r' }], 0),
    ).rejects.toMatchObject({ code: 'NOT_AUTHORIZED' });
  });
});

describe('watches', () => {
  it('fire once for creation, change, deletion and children', async () => {
    const existence = await client.watchExists(path);
    expect(existence.stat).toBeUndefined();
    await other.create(path);
    expect(await existence.watch.fired).toBe('created');
    const data = await client.watch(path);
    const children = await client.watchChildren(path);
    await other.set(path, 'x');
    expect(await data.watch.fired).toBe('changed');
    await other.create(`${path}/c`);
    expect(await children.watch.fired).toBe('child');
    await other.delete(`${path}/c`);
    const both = [await client.watch(path), await client.watchChildren(path)];
    await other.delete(path);
    expect(await Promise.all(both.map(({ watch }) => watch.fired))).toEqual(['deleted', 'deleted']);
  });

  it('on one path fire for each caller', async () => {
    const path = await client.create(zk.path('shared'));
    const watches = await Promise.all(Array.from({ length: 50 }, () => client.watch(path)));
    const before = await zk.watchCount();
    await client.set(path, 'x');
    const events = await Promise.all(watches.map(({ watch }) => watch.fired));
    expect(new Set(events)).toEqual(new Set(['changed']));
    expect(await zk.watchCount()).toBe(before - 1);
  });

  it('that were removed do not fire, and the others do', async () => {
    const path = await client.create(zk.path('removed'));
    const { watch } = await client.watch(path);
    const { watch: kept } = await client.watch(path);
    let fired = false;
    void watch.fired.then(() => (fired = true));
    watch.remove();
    watch.remove();
    await client.set(path, 'x');
    expect(await kept.fired).toBe('changed');
    await delay(20);
    expect(fired).toBe(false);
  });

  it('are not set by get() on a missing node', async () => {
    const before = await zk.watchCount();
    await expect(client.watch(zk.path('missing'))).rejects.toMatchObject({ code: 'NO_NODE' });
    await expect(client.watchChildren(zk.path('missing'))).rejects.toMatchObject({
      code: 'NO_NODE',
    });
    expect(await zk.watchCount()).toBe(before);
  });

  it('leave nothing behind after hundreds of them', async () => {
    const session = await (await connect()).session();
    const root = await session.create(zk.path('many'));
    const before = await zk.watchCount();
    for (let i = 0; i < 3; i++) {
      await Promise.all(
        Array.from({ length: 100 }, async () => {
          const node = await session.create(`${root}/n-`, '', { mode: 'ephemeral-sequential' });
          const { watch } = await session.get(node, { watch: true });
          await session.delete(node);
          expect(await watch.fired).toBe('deleted');
        }),
      );
    }
    expect(await zk.watchCount()).toBe(before);
  });
});

describe('a znode with a TTL', () => {
  it('is deleted after its TTL, unless it is written before', async () => {
    const root = await client.create(path);
    const idle = await client.create(`${root}/idle`, 'data', { ttl: 1 });
    const mode = 'persistent-sequential';
    const written = await client.create(`${root}/n-`, 'data', { mode, ttl: 600_000 });
    expect(written).toBe(`${root}/n-0000000001`);
    await expect.poll(() => client.exists(idle)).toBeUndefined();
    expect((await client.get(written)).data.toString()).toBe('data');
  });

  it.each([
    [{ ttl: 0 }, 'ttl'],
    [{ ttl: 1.5 }, 'ttl'],
    [{ ttl: 2 ** 31 }, 'ttl'],
    [{ ttl: '1' }, 'ttl'],
    [{ ttl: 1, mode: 'ephemeral' }, 'ttl'],
    [{ ttl: 1, mode: 'container' }, 'ttl'],
  ])('is refused with %j', async (options, option) => {
    const error = await client.create(path, '', options as object).catch((e) => e);
    expect(error).toBeInstanceOf(BadOptionError);
    expect(error).toMatchObject({ option });
  });
});
