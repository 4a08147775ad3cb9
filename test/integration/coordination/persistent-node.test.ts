import { afterEach, describe, expect, test, vi } from 'vitest';
import {
  ConnectionError,
  IllegalStateError,
  WaitTimeoutError,
  NotAuthorizedError,
  PersistentNode,
  type PersistentNodeOptions,
  PersistentTtlNode,
  RecipeConflictError,
  ShuttingDownError,
  WaitCancelledError,
  type ZkClient,
} from '../../../lib/coordination/recipes/index.js';
import { expire, untilState, useClients } from '../../support/clients.js';
import { useLinks } from '../../support/link.js';
import { failureOf, nodesUnder } from '../../support/recipe-nodes.js';
import { serverHas, useServer } from '../../support/servers.js';

const zk = useServer();
const newLink = useLinks(zk);
const connect = useClients(zk);

const open: { close(): Promise<void> }[] = [];
afterEach(async () => {
  await Promise.all(open.splice(0).map((each) => each.close()));
});

/** Returns a started node, and the paths that it has announced. */
function keep(client: ZkClient, path: string, options: PersistentNodeOptions = {}) {
  const node = new PersistentNode(client, path, options);
  open.push(node);
  const log: (string | undefined)[] = [];
  node.onChange((current) => log.push(current));
  node.start();
  return { node, log };
}

const dataOf = async (client: ZkClient, path: string) => (await client.get(path)).data.toString();

describe('a persistent node', () => {
  test('exists with its data until it is closed, in a parent that it creates', async () => {
    const client = await connect();
    const path = `${zk.path('node')}/a/b`;
    const { node, log } = keep(client, path, { data: 'one' });
    expect(await node.waitForInitialCreate()).toBe(path);
    expect([node.actualPath, node.data.toString(), node.state]).toEqual([path, 'one', 'started']);
    expect(await dataOf(client, path)).toBe('one');
    expect((await client.exists(path))?.ephemeralOwner).toBe(client.sessionId);
    await node.close();
    expect(await client.exists(path)).toBeUndefined();
    expect(log).toEqual([path, undefined]);
    expect(node.state).toBe('closed');
  });

  const modes = ['ephemeral', 'persistent', ...(serverHas.containers ? ['container'] : [])];

  test.each(modes as ('ephemeral' | 'persistent' | 'container')[])(
    'of mode %s is created again after its deletion',
    async (mode) => {
      const [client, other] = [await connect(), await connect()];
      const path = zk.path('deleted');
      const { node, log } = keep(client, path, { mode, data: 'x' });
      await node.waitForInitialCreate();
      await other.delete(path);
      await expect.poll(() => log).toEqual([path, undefined, path]);
      await other.sync(path);
      expect(await dataOf(other, path)).toBe('x');
      await node.close();
      await other.sync(path);
      expect(await other.exists(path)).toBeUndefined();
    },
  );

  test('is created again in the next session', async () => {
    const client = await connect();
    const path = zk.path('session');
    const { node, log } = keep(client, path, { data: 'x' });
    await node.waitForInitialCreate();
    await expire(client, zk);
    await expect.poll(() => log).toEqual([path, undefined, path]);
    expect((await client.exists(path))?.ephemeralOwner).toBe(client.sessionId);
  });

  test('of a persistent mode is not written again in the next session or after a reconnection', async () => {
    const link = await newLink();
    const client = await connect({ connectString: link.connectString });
    const other = await connect();
    const path = zk.path('unchanged');
    const { node, log } = keep(client, path, { mode: 'persistent', data: 'x' });
    await node.waitForInitialCreate();
    await link.cut();
    await expire(client, zk);
    await expect.poll(() => client.connected).toBe(true);
    node.setData('y');
    await expect.poll(() => dataOf(other, path)).toBe('y');
    expect((await other.exists(path))?.version).toBe(1);
    expect(log).toEqual([path]);
  });

  test.each(['ephemeral-sequential', 'persistent-sequential'] as const)(
    'of mode %s keeps its number',
    async (mode) => {
      const client = await connect();
      const parent = await client.create(zk.path('sequential'));
      const { node, log } = keep(client, `${parent}/n-`, { mode, data: 'x' });
      const path = await node.waitForInitialCreate();
      expect(path.slice(parent.length)).toMatch(/^\/_c_[0-9a-f-]{36}-n-0000000000$/);
      await client.delete(path);
      await expect.poll(() => log).toEqual([path, undefined, path]);
      expect(await nodesUnder(client, parent)).toEqual([path.slice(parent.length + 1)]);
      await node.close();
      expect(await nodesUnder(client, parent)).toEqual([]);
    },
  );

  test
    .runIf(serverHas.sessionResume)
    .each(['ephemeral', 'ephemeral-sequential', 'persistent-sequential'] as const)(
    'of mode %s exists once if the reply to its create is lost',
    async (mode) => {
      const link = await newLink();
      const client = await connect({ connectString: link.connectString });
      const other = await connect();
      const parent = await other.create(zk.path('lost'));
      await link.deafen();
      const { node } = keep(client, `${parent}/n`, { mode, data: 'x' });
      await expect.poll(() => nodesUnder(other, parent)).toHaveLength(1);
      await link.cut();
      const path = await node.waitForInitialCreate();
      expect(await nodesUnder(other, parent)).toEqual([path.slice(parent.length + 1)]);
      await node.close();
      await other.sync(parent);
      expect(await nodesUnder(other, parent)).toEqual([]);
    },
  );

  test('that another session left behind is taken over, and created again when that one ends', async () => {
    const [client, former] = [await connect(), await connect()];
    const path = zk.path('former');
    await former.create(path, 'old', { mode: 'ephemeral' });
    const { node, log } = keep(client, path, { data: 'new' });
    await node.waitForInitialCreate();
    expect(await dataOf(client, path)).toBe('new');
    await former.close();
    await expect.poll(() => log).toEqual([path, undefined, path]);
    expect((await client.exists(path))?.ephemeralOwner).toBe(client.sessionId);
  });

  test('whose znode is persistent, in contrast to its mode, reports that once', async () => {
    const [client, other] = [await connect(), await connect()];
    const path = await other.create(zk.path('conflict'));
    const errors: unknown[] = [];
    const { node } = keep(client, path, { data: 'x', onError: (error) => errors.push(error) });
    expect(await node.waitForInitialCreate()).toBe(path);
    for (const data of ['y', 'z']) {
      node.setData(data);
      await expect.poll(() => dataOf(other, path)).toBe(data);
    }
    await node.close();
    expect(errors).toEqual([expect.any(RecipeConflictError)]);
    expect(errors).toMatchObject([{ key: path, message: expect.stringContaining('a persistent') }]);
    expect(await other.exists(path)).toBeDefined();
  });

  test('that is closed leaves an ephemeral znode of another session', async () => {
    const [client, other] = [await connect(), await connect()];
    const path = zk.path('foreign');
    await other.create(path, '', { mode: 'ephemeral' });
    const { node } = keep(client, path);
    await node.waitForInitialCreate();
    await node.close();
    expect(await other.exists(path)).toBeDefined();
  });

  test('leaves data alone that another client has written, until setData', async () => {
    const [client, other] = [await connect(), await connect()];
    const path = zk.path('data');
    const { node } = keep(client, path, { data: 'x' });
    await node.waitForInitialCreate();
    await other.set(path, 'foreign');
    node.setData('y');
    await expect.poll(() => dataOf(other, path)).toBe('y');
    await other.set(path, 'foreign');
    await other.delete(path);
    await expect.poll(async () => (await other.exists(path)) && dataOf(other, path)).toBe('y');
  });

  test('that the server refuses reports it once, and waiting for it fails', async () => {
    const client = await connect();
    const parent = await client.create(zk.path('denied'));
    await client.setAcl(parent, [{ scheme: 'world', id: 'anyone', permissions: 'r' }]);
    const errors: unknown[] = [];
    const { node } = keep(client, `${parent}/a`, { onError: (error) => errors.push(error) });
    expect(await failureOf(node.waitForInitialCreate())).toBeInstanceOf(NotAuthorizedError);
    expect(errors).toHaveLength(1);
    await node.close();
  });

  test('that waits can be given up, cancelled and closed', async () => {
    const link = await newLink();
    const client = await connect({ connectString: link.connectString });
    await link.silence();
    const { node } = keep(client, zk.path('waits'));
    expect(await failureOf(node.waitForInitialCreate({ wait: 1 }))).toBeInstanceOf(
      WaitTimeoutError,
    );
    const cancel = new AbortController();
    const cancelled = failureOf(node.waitForInitialCreate({ signal: cancel.signal }));
    cancel.abort();
    expect(await cancelled).toBeInstanceOf(WaitCancelledError);
    const closed = failureOf(node.waitForInitialCreate());
    await link.speak();
    await node.close();
    expect(await closed).toBeInstanceOf(IllegalStateError);
    expect(() => node.start()).toThrow(IllegalStateError);
  });

  test.each(['ephemeral', 'ephemeral-sequential'] as const)(
    'of mode %s that is closed without a connection is deleted after the reconnection',
    async (mode) => {
      const link = await newLink();
      const client = await connect({ connectString: link.connectString });
      const other = await connect();
      const errors: unknown[] = [];
      const { node } = keep(client, zk.path('outage'), {
        mode,
        onError: (error) => errors.push(error),
      });
      const path = await node.waitForInitialCreate();
      await link.down();
      await untilState(client, 'SUSPENDED');
      await node.close();
      expect(await other.exists(path)).toBeDefined();
      await link.up();
      await expect.poll(() => other.exists(path)).toBeUndefined();
      expect(errors).toEqual([]);
    },
  );

  test('of a persistent mode that is closed without a connection reports it, and is deleted later', async () => {
    const link = await newLink();
    const client = await connect({ connectString: link.connectString });
    const other = await connect();
    const errors: Error[] = [];
    const onError = (error: Error) => errors.push(error);
    const { node } = keep(client, zk.path('outage'), { mode: 'persistent', onError });
    const path = await node.waitForInitialCreate();
    await link.down();
    await untilState(client, 'SUSPENDED');
    await node.close();
    expect(errors).toEqual([expect.any(ConnectionError)]);
    expect(errors[0]!.message).toContain('has no reply after 2000 ms');
    await link.up();
    await expect.poll(() => other.exists(path), { timeout: 10_000 }).toBeUndefined();
    expect(errors).toHaveLength(1);
  });

  test('ends the waits for it when its client is closed', async () => {
    const link = await newLink();
    const client = await connect({ connectString: link.connectString });
    await link.silence();
    const { node } = keep(client, zk.path('shut-down'));
    const waiting = failureOf(node.waitForInitialCreate());
    await client.close();
    expect(await waiting).toBeInstanceOf(ShuttingDownError);
    expect(await failureOf(node.waitForInitialCreate())).toBeInstanceOf(ShuttingDownError);
  });

  test('refuses new data that is too long, and new data after its close', async () => {
    const node = new PersistentNode(await connect(), zk.path('refused'));
    expect(() => node.setData(Buffer.alloc(1_050_000))).toThrow('data must be at most');
    await node.close();
    expect(() => node.setData('late')).toThrow(IllegalStateError);
    expect(node.data.toString()).toBe('');
  });

  test.each([
    ['path', ['a', {}]],
    ['path', ['/', {}]],
    ['mode', ['/a', { mode: 'lasting' }]],
    ['data', ['/a', { data: 1 }]],
    ['data', ['/a', { data: 'x'.repeat(1_050_000) }]],
    ['onError', ['/a', { onError: 1 }]],
    ['protection', ['/a', { protection: true }]],
  ])('is refused with a bad %s', async (option, args) => {
    const client = await connect();
    const make = () => new PersistentNode(client, ...(args as ['/a', object]));
    expect(make).toThrow(expect.objectContaining({ code: 'BAD_OPTION', option }));
  });
});

describe.runIf(serverHas.ttlNodes)('a persistent TTL node', () => {
  test('is a container with a child that has the TTL, which is written again and again', async () => {
    const [client, other] = [await connect(), await connect()];
    const path = zk.path('ttl');
    const errors: unknown[] = [];
    const onError = (error: unknown) => errors.push(error);
    const node = new PersistentTtlNode(client, path, { ttl: 60, data: 'x', onError });
    open.push(node);
    node.start();
    await node.waitForInitialCreate();
    await expect
      .poll(async () => (await other.exists(`${path}/touch`))?.version ?? 0)
      .toBeGreaterThan(3);
    await other.delete(`${path}/touch`);
    await expect.poll(() => other.exists(`${path}/touch`)).toBeDefined();
    expect(await dataOf(other, path)).toBe('x');
    await node.close();
    expect(errors).toEqual([]);
    // The server deletes the child, and then the container.
    await expect.poll(() => other.exists(path), { timeout: 10_000 }).toBeUndefined();
  });

  test('reports no write of the child that the end of the client interrupts', async () => {
    const link = await newLink();
    const client = await connect({ connectString: link.connectString });
    const errors: unknown[] = [];
    const onError = (error: unknown) => errors.push(error);
    const node = new PersistentTtlNode(client, zk.path('ttl-end'), { ttl: 60, onError });
    open.push(node);
    node.start();
    await node.waitForInitialCreate();
    const set = vi.spyOn(client, 'set');
    await link.silence();
    await expect.poll(() => set.mock.settledResults.at(-1)?.type).toBe('incomplete');
    const stopTimer = vi.spyOn(globalThis, 'clearInterval');
    await client.close();
    expect(stopTimer).toHaveBeenCalled();
    stopTimer.mockRestore();
    await node.close();
    expect(errors).toEqual([]);
  });

  test.each([
    ['ttl', {}],
    ['ttl', { ttl: 0 }],
    ['childName', { ttl: 1, childName: 'a' }],
    ['mode', { ttl: 1, mode: 'ephemeral' }],
  ])('is refused with a bad %s', async (option, options) => {
    const client = await connect();
    const make = () => new PersistentTtlNode(client, '/a', options as { ttl: number });
    expect(make).toThrow(expect.objectContaining({ code: 'BAD_OPTION', option }));
  });
});
