import { describe, expect } from 'vitest';
import {
  BadOptionError,
  type WatchNotification,
  type ZkClient,
} from '../../../lib/client/index.js';
import { expire, useClients, useLinks } from '../../support/clients.js';
import { useServer } from '../../support/servers.js';
import { it } from '../../support/virtual-time.js';

const zk = useServer();
const newLink = useLinks(zk);
const connect = useClients(zk);

/** Returns a listener, and the notifications that it got, each as `event path`. */
function recorder(root: string) {
  const got: string[] = [];
  const listener = ({ event, path }: WatchNotification) => {
    got.push(`${event} ${path.startsWith(root) ? path.slice(root.length) || '.' : path}`);
  };
  /** Resolves to the notifications, once all that were caused before have arrived. */
  const settled = async (client: ZkClient) => {
    await client.sync('/');
    return got;
  };
  return { got, listener, settled };
}

describe('a persistent watch', () => {
  it('notifies of each change of a znode and of its children', async () => {
    const client = await connect();
    const root = zk.path('plain');
    const { listener, settled } = recorder(root);
    await client.addWatch(root, listener);
    await client.create(root);
    await client.set(root, 'x');
    await client.set(root, 'y');
    await client.create(`${root}/a`);
    await client.set(`${root}/a`, 'unseen');
    await client.delete(`${root}/a`);
    await client.delete(root);
    await client.create(root);
    expect(await settled(client)).toEqual([
      'created .',
      'changed .',
      'changed .',
      'child .',
      'child .',
      'deleted .',
      'created .',
    ]);
  });

  it('notifies of each change of the tree, if it is recursive', async () => {
    const client = await connect();
    const root = await client.create(zk.path('recursive'));
    const { listener, settled } = recorder(root);
    await client.addWatch(root, listener, { recursive: true });
    await client.create(`${root}/a`);
    await client.create(`${root}/a/b`);
    await client.set(`${root}/a/b`, 'x');
    await client.delete(`${root}/a/b`);
    await client.set(root, 'x');
    await client.create(`${root}-sibling`);
    expect(await settled(client)).toEqual([
      'created /a',
      'created /a/b',
      'changed /a/b',
      'deleted /a/b',
      'changed .',
    ]);
  });

  it('has paths without the chroot, also on the root', async () => {
    const plain = await connect();
    const root = await plain.create(zk.path('watched-chroot'));
    const client = await connect({ connectString: zk.connectString + root });
    const got: WatchNotification[] = [];
    await client.addWatch('/', (notification) => got.push(notification), { recursive: true });
    await client.create('/a');
    await client.set('/', 'x');
    await client.sync('/');
    expect(got).toEqual([
      { event: 'created', path: '/a' },
      { event: 'changed', path: '/' },
    ]);
  });

  it('on a path notifies all of its listeners, and is removed from the server with the last', async () => {
    const client = await connect();
    const root = await client.create(zk.path('shared'));
    const before = await zk.watchCount();
    const one = recorder(root);
    const other = recorder(root);
    const watches = [
      await client.addWatch(root, one.listener, { recursive: true }),
      await client.addWatch(root, other.listener, { recursive: true }),
    ];
    expect(await zk.watchCount()).toBeGreaterThan(before);
    await client.create(`${root}/a`);
    watches[0]!.remove();
    await client.create(`${root}/b`);
    expect(await other.settled(client)).toEqual(['created /a', 'created /b']);
    expect(one.got).toEqual(['created /a']);
    watches[1]!.remove();
    watches[1]!.remove();
    // Unlike a sync, it is not sent before the removal.
    await client.exists('/');
    expect(await zk.watchCount()).toBe(before);
    await client.create(`${root}/c`);
    expect(await other.settled(client)).toHaveLength(2);
  });

  it('a persistent watch and a one-time watch of one path do not replace each other', async () => {
    const client = await connect();
    const root = await client.create(zk.path('together'));
    const before = await zk.watchCount();
    const { listener, settled, got } = recorder(root);
    // Set while the persistent watch is being set, after it, and before it.
    const [{ watch: early }, persistent, { watch: during }] = await Promise.all([
      client.watch(root),
      client.addWatch(root, listener, { recursive: true }),
      client.watch(root),
    ]);
    const { watch: removed } = await client.watch(root);
    const { watch: late } = await client.watchExists(root);
    const { watch: children } = await client.watchChildren(root);
    removed.remove();
    await client.set(root, 'x');
    expect(await Promise.all([early.fired, during.fired, late.fired])).toEqual([
      'changed',
      'changed',
      'changed',
    ]);
    await client.create(`${root}/a`);
    expect(await children.fired).toBe('child');
    await client.set(root, 'y');
    await client.set(root, 'z');
    await client.create(`${root}/b`);
    await settled(client);
    const changed = 'changed .';
    expect(got).toEqual([changed, 'created /a', changed, changed, 'created /b']);

    // The one-time watch still fires after the persistent one was removed.
    const { watch: last } = await client.watch(root);
    persistent.remove();
    await client.set(root, 'w');
    expect(await last.fired).toBe('changed');
    // Unlike a sync, it is not sent before the removal.
    await client.exists('/');
    expect(await zk.watchCount()).toBe(before);
  });

  it('fires an earlier watch on the children, which a recursive one replaces on the server', async () => {
    const client = await connect();
    const root = await client.create(zk.path('children'));
    const { watch: earlier } = await client.watchChildren(root);
    await client.addWatch(root, () => {}, { recursive: true });
    expect(await earlier.fired).toBe('session');
    const { watch: later } = await client.watchChildren(root);
    await client.create(`${root}/a`);
    expect(await later.fired).toBe('child');
  });

  it('rejects a second persistent watch with another mode', async () => {
    const client = await connect();
    const path = zk.path('modes');
    await client.addWatch(path, () => {}, { recursive: true });
    const error = await client.addWatch(path, () => {}).catch((e: unknown) => e);
    expect(error).toBeInstanceOf(BadOptionError);
    expect(error).toMatchObject({ option: 'recursive', value: false });
  });

  it('ends with the event session when the client reconnects, and can be added again', async () => {
    const link = await newLink();
    const client = await connect({ connectString: link.connectString });
    const root = await client.create(zk.path('reconnect'));
    const { got, listener, settled } = recorder(root);
    const watch = await client.addWatch(root, listener, { recursive: true });
    await link.cut();
    await expect.poll(() => got).toEqual(['session .']);
    watch.remove();
    await client.addWatch(root, listener, { recursive: true });
    await client.create(`${root}/a`);
    expect(await settled(client)).toEqual(['session .', 'created /a']);
  });

  it('ends with the event session when the session ends', async () => {
    const client = await connect();
    const root = await client.create(zk.path('expired'));
    const { got, listener } = recorder(root);
    await client.addWatch(root, listener);
    await expire(client, zk);
    await expect.poll(() => got).toEqual(['session .']);
  });

  it.each([
    [['a', () => {}], 'path'],
    [['/a', 'listener'], 'listener'],
    [['/a', () => {}, { recursive: 1 }], 'recursive'],
    [['/a', () => {}, { deep: true }], 'deep'],
  ])('is refused with bad arguments %#', async (args, option) => {
    const client = await connect();
    const error = await client.addWatch(...(args as ['/', () => void])).catch((e: unknown) => e);
    expect(error).toMatchObject({ code: 'BAD_OPTION', option });
  });
});
