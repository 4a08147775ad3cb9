import { PersistentNode, WaitTimeoutError } from 'nestjs-zookeeper/coordination';
import {
  ConnectionError,
  IllegalStateError,
  NotAuthorizedError,
  RecipeConflictError,
  ShuttingDownError,
  WaitCancelledError,
  type ZkClient,
} from 'nestjs-zookeeper/recipes';
import { describe, expect, vi } from 'vitest';
import type { PersistentNodeOptions } from '../../../lib/coordination/recipes/persistent-node.js';
import { expire, untilState, useClients, useLinks } from '../../support/clients.js';
import { nodesUnder, untilNodes } from '../../support/recipe-nodes.js';
import { serverHas, useServer } from '../../support/servers.js';
import { afterEach, beforeEach, it } from '../../support/virtual-time.js';

const zk = useServer();
const newLink = useLinks(zk);
const connect = useClients(zk);

let client: ZkClient;
let other: ZkClient;
let path: string;
beforeEach(async () => {
  [client, other] = await Promise.all([connect(), connect()]);
  path = zk.path('node');
});

// Runs before the clients are closed.
const open: { close(): Promise<void> }[] = [];
afterEach(async () => {
  await Promise.all(open.splice(0).map((each) => each.close()));
});

/** Returns a started node, the paths that it has announced, and its errors. */
function keep(options: PersistentNodeOptions = {}, at = path, of = client) {
  const errors: Error[] = [];
  const onError = (error: Error) => void errors.push(error);
  const node = new PersistentNode(of, at, { onError, ...options });
  open.push(node);
  const log: (string | undefined)[] = [];
  node.onChange((current) => log.push(current));
  node.start();
  return { node, log, errors };
}

/** Returns a client that a link connects. */
async function connectByLink() {
  const link = await newLink();
  return { link, linked: await connect({ connectString: link.connectString }) };
}

const dataOf = async (znode: string) => (await other.get(znode)).data.toString();

describe('a persistent node', () => {
  it('exists with its data until it is closed, in a parent that it creates', async () => {
    const { node, log } = keep({ data: 'one' }, `${path}/a/b`);
    const created = await node.waitForInitialCreate();
    expect(created).toBe(`${path}/a/b`);
    expect([node.actualPath, node.data.toString(), node.state]).toEqual([
      created,
      'one',
      'started',
    ]);
    const { data, stat } = await client.get(created);
    expect([data.toString(), stat.ephemeralOwner]).toEqual(['one', client.sessionId]);
    await node.close();
    expect(await client.exists(created)).toBeUndefined();
    expect(log).toEqual([created, undefined]);
    expect(node.state).toBe('closed');
  });

  const modes = ['ephemeral', 'persistent', ...(serverHas.containers ? ['container'] : [])];

  it.each(modes as ('ephemeral' | 'persistent' | 'container')[])(
    'of mode %s is created again after its deletion',
    async (mode) => {
      const { node, log } = keep({ mode, data: 'x' });
      await node.waitForInitialCreate();
      await other.delete(path);
      await expect.poll(() => log).toEqual([path, undefined, path]);
      await other.sync(path);
      expect(await dataOf(path)).toBe('x');
      await node.close();
      await other.sync(path);
      expect(await other.exists(path)).toBeUndefined();
    },
  );

  it('is created again in the next session', async () => {
    const { node, log } = keep();
    await node.waitForInitialCreate();
    await expire(client, zk);
    await expect.poll(() => log).toEqual([path, undefined, path]);
    expect((await client.exists(path))?.ephemeralOwner).toBe(client.sessionId);
  });

  it('of a persistent mode is not written again in the next session or after a reconnection', async () => {
    const { link, linked } = await connectByLink();
    const { node, log } = keep({ mode: 'persistent', data: 'x' }, path, linked);
    await node.waitForInitialCreate();
    await link.cut();
    await expire(linked, zk);
    await expect.poll(() => linked.connected).toBe(true);
    node.setData('y');
    await expect.poll(() => dataOf(path)).toBe('y');
    expect((await other.exists(path))?.version).toBe(1);
    expect(log).toEqual([path]);
  });

  it.each(['ephemeral-sequential', 'persistent-sequential'] as const)(
    'of mode %s keeps its number',
    async (mode) => {
      await client.create(path);
      const { node, log } = keep({ mode, data: 'x' }, `${path}/n-`);
      const created = await node.waitForInitialCreate();
      expect(created.slice(path.length)).toMatch(/^\/_c_[0-9a-f-]{36}-n-0000000000$/);
      await client.delete(created);
      await expect.poll(() => log).toEqual([created, undefined, created]);
      expect(await nodesUnder(client, path)).toEqual([created.slice(path.length + 1)]);
      await node.close();
      expect(await nodesUnder(client, path)).toEqual([]);
    },
  );

  it
    .runIf(serverHas.sessionResume)
    .each(['ephemeral', 'ephemeral-sequential', 'persistent-sequential'] as const)(
    'of mode %s exists once if the reply to its create is lost',
    async (mode) => {
      const { link, linked } = await connectByLink();
      await other.create(path);
      await link.holdReplies();
      const { node } = keep({ mode, data: 'x' }, `${path}/n`, linked);
      await untilNodes(other, path, 1);
      await link.cut();
      const created = await node.waitForInitialCreate();
      expect(await nodesUnder(other, path)).toEqual([created.slice(path.length + 1)]);
      await node.close();
      await other.sync(path);
      expect(await nodesUnder(other, path)).toEqual([]);
    },
  );

  it('that another session left behind is taken over, and created again when that one ends', async () => {
    await other.create(path, 'old', { mode: 'ephemeral' });
    const { node, log } = keep({ data: 'new' });
    await node.waitForInitialCreate();
    expect(await dataOf(path)).toBe('new');
    await other.close();
    await expect.poll(() => log).toEqual([path, undefined, path]);
    expect((await client.exists(path))?.ephemeralOwner).toBe(client.sessionId);
  });

  it('whose znode is persistent, in contrast to its mode, reports that once', async () => {
    await other.create(path);
    const { node, errors } = keep({ data: 'x' });
    expect(await node.waitForInitialCreate()).toBe(path);
    for (const data of ['y', 'z']) {
      node.setData(data);
      await expect.poll(() => dataOf(path)).toBe(data);
    }
    await node.close();
    expect(errors).toEqual([expect.any(RecipeConflictError)]);
    expect(errors).toMatchObject([{ key: path, message: expect.stringContaining('a persistent') }]);
    expect(await other.exists(path)).toBeDefined();
  });

  it('that is closed leaves an ephemeral znode of another session', async () => {
    await other.create(path, '', { mode: 'ephemeral' });
    const { node } = keep();
    await node.waitForInitialCreate();
    await node.close();
    expect(await other.exists(path)).toBeDefined();
  });

  it('writes the data that a listener of onChange sets', async () => {
    const { node } = keep({ data: 'x' });
    node.onChange((current) => current !== undefined && node.setData('y'));
    await node.waitForInitialCreate();
    await expect.poll(() => dataOf(path), { timeout: 5000 }).toBe('y');
  });

  it('leaves data alone that another client has written, until setData', async () => {
    const { node } = keep({ data: 'x' });
    await node.waitForInitialCreate();
    await other.set(path, 'foreign');
    node.setData('y');
    await expect.poll(() => dataOf(path)).toBe('y');
    await other.set(path, 'foreign');
    await other.delete(path);
    await expect.poll(async () => (await other.exists(path)) && dataOf(path)).toBe('y');
  });

  it('that the server refuses reports it once, and waiting for it fails', async () => {
    await client.create(path);
    await client.setAcl(path, [{ scheme: 'world', id: 'anyone', permissions: 'r' }]);
    const { node, errors } = keep({}, `${path}/a`);
    await expect(node.waitForInitialCreate()).rejects.toThrow(NotAuthorizedError);
    await node.close();
    expect(errors).toHaveLength(1);
  });

  it('ends the waits for it by their timeout, their signal, its close and the close of its client', async () => {
    const { link, linked } = await connectByLink();
    await link.holdAll();
    const [{ node }, { node: second }] = [keep({}, path, linked), keep({}, path, linked)];
    await expect(node.waitForInitialCreate({ wait: 1 })).rejects.toThrow(WaitTimeoutError);
    const cancel = new AbortController();
    const { signal } = cancel;
    const waits = [
      expect(node.waitForInitialCreate({ signal })).rejects.toThrow(WaitCancelledError),
      expect(node.waitForInitialCreate()).rejects.toThrow(IllegalStateError),
      expect(second.waitForInitialCreate()).rejects.toThrow(ShuttingDownError),
    ];
    cancel.abort();
    await node.close();
    await linked.close();
    await Promise.all(waits);
    expect(() => node.start()).toThrow(IllegalStateError);
    await expect(second.waitForInitialCreate()).rejects.toThrow(ShuttingDownError);
  });

  it.each(['ephemeral', 'ephemeral-sequential', 'persistent'] as const)(
    'of mode %s that is closed without a connection is deleted after the reconnection',
    async (mode) => {
      const { link, linked } = await connectByLink();
      const { node, errors } = keep({ mode }, path, linked);
      const created = await node.waitForInitialCreate();
      await link.down();
      await untilState(linked, 'SUSPENDED');
      await node.close();
      const expected = mode === 'persistent' ? [expect.any(ConnectionError)] : [];
      expect(errors).toEqual(expected);
      if (errors[0]) expect(errors[0].message).toContain('has no reply after 2000 ms');
      expect(await other.exists(created)).toBeDefined();
      await link.up();
      await expect.poll(() => other.exists(created)).toBeUndefined();
      expect(errors).toEqual(expected);
    },
  );

  it('refuses wrong options, and new data that is too long or after its close', async () => {
    const tooLong = 'x'.repeat(1_050_000);
    for (const [option, args] of [
      ['path', ['a', {}]],
      ['path', ['/', {}]],
      ['mode', ['/a', { mode: 'lasting' }]],
      ['data', ['/a', { data: 1 }]],
      ['data', ['/a', { data: tooLong }]],
      ['onError', ['/a', { onError: 1 }]],
      ['protection', ['/a', { protection: true }]],
    ] as [string, [string, object]][]) {
      const make = () => new PersistentNode(client, ...args);
      expect(make).toThrow(expect.objectContaining({ code: 'BAD_OPTION', option }));
    }
    const node = new PersistentNode(client, path);
    expect(() => node.setData(tooLong)).toThrow('data must be at most');
    await node.close();
    expect(() => node.setData('late')).toThrow(IllegalStateError);
    expect(node.data.toString()).toBe('');
  });
});

describe.runIf(serverHas.ttlNodes)('a persistent node with a TTL', () => {
  async function keepTtlNode(of: ZkClient) {
    const errors: unknown[] = [];
    const onError = (error: unknown) => errors.push(error);
    const node = new PersistentNode(of, path, { ttl: 60, data: 'x', onError });
    open.push(node);
    node.start();
    await node.waitForInitialCreate();
    return { node, errors };
  }

  it('is a container with a child that has the TTL, which is written again and again', async () => {
    const { node, errors } = await keepTtlNode(client);
    await expect
      .poll(async () => (await other.exists(`${path}/touch`))?.version ?? 0)
      .toBeGreaterThan(3);
    await other.delete(`${path}/touch`);
    await expect.poll(() => other.exists(`${path}/touch`)).toBeDefined();
    expect(await dataOf(path)).toBe('x');
    await node.close();
    expect(errors).toEqual([]);
    // The server deletes the child, and then the container.
    await expect.poll(() => other.exists(path)).toBeUndefined();
  });

  it('is never without its child, also if it adopts a container that has none', async () => {
    const session = await other.session();
    const { watch } = await session.exists(path, { watch: true });
    const { node } = keep({ ttl: 60_000 });
    await watch.fired;
    expect(await other.exists(`${path}/touch`)).toBeDefined();
    await node.close();
    await other.create(`${path}-adopted`, '', { mode: 'container' });
    const adopting = keep({ ttl: 60_000 }, `${path}-adopted`);
    await adopting.node.waitForInitialCreate();
    expect(await other.exists(`${path}-adopted/touch`)).toBeDefined();
  });

  it('is deleted by its close if its child was never written', async () => {
    await other.create(path, '', { mode: 'container' });
    vi.spyOn(client, 'set').mockRejectedValue(new Error('refused'));
    const { node, errors } = keep({ ttl: 60_000 });
    await expect(node.waitForInitialCreate()).rejects.toThrow('refused');
    await node.close();
    expect(await other.exists(path)).toBeUndefined();
    expect(errors).toHaveLength(1);
  });

  it('reports no write of the child that the end of the client interrupts', async () => {
    const { link, linked } = await connectByLink();
    const { node, errors } = await keepTtlNode(linked);
    const set = vi.spyOn(linked, 'set');
    await link.holdAll();
    await expect.poll(() => set.mock.settledResults.at(-1)?.type).toBe('incomplete');
    const stopTimer = vi.spyOn(globalThis, 'clearInterval');
    await linked.close();
    expect(stopTimer).toHaveBeenCalled();
    stopTimer.mockRestore();
    await node.close();
    expect(errors).toEqual([]);
  });

  it('refuses wrong options', () => {
    for (const [option, options] of [
      ['ttl', { ttl: 0 }],
      ['childName', { ttl: 1, childName: 'a' }],
      ['mode', { ttl: 1, mode: 'ephemeral' }],
    ] as [string, { ttl: number }][]) {
      const make = () => new PersistentNode(client, '/a', options);
      expect(make).toThrow(expect.objectContaining({ code: 'BAD_OPTION', option }));
    }
  });
});
