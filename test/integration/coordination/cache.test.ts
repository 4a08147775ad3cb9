import { describe, expect, vi } from 'vitest';
import { type CacheEvent, WaitTimeoutError, ZkCache } from 'nestjs-zookeeper/coordination';
import {
  IllegalStateError,
  NotAuthorizedError,
  ShuttingDownError,
  WaitCancelledError,
  type ZkClient,
} from 'nestjs-zookeeper/recipes';
import type { ZkCacheOptions } from '../../../lib/coordination/recipes/cache.js';
import { expire, untilState, useClients, useLinks } from '../../support/clients.js';
import { eventually } from '../../support/eventually.js';
import { serverHas, useServer } from '../../support/servers.js';
import { beforeEach, it } from '../../support/virtual-time.js';

const server = useServer();
const connect = useClients(server);
const newLink = useLinks(server);

let client: ZkClient;
let writer: ZkClient;
let path: string;
beforeEach(async () => {
  client = await connect();
  writer = await connect({ auth: [{ scheme: 'digest', user: 'o', password: 'p' }] });
  path = server.path('cache');
});

/** Creates znodes below the path, in their order. */
async function create(znodes: Record<string, string>) {
  for (const [name, data] of Object.entries(znodes)) await writer.create(path + name, data);
}

/** Denies or allows other clients than the writer to read a znode. */
const hide = (znode: string) =>
  writer.setAcl(znode, [{ scheme: 'auth', id: '', permissions: 'cdrwa' }]);
const show = (znode: string) =>
  writer.setAcl(znode, [{ scheme: 'world', id: 'anyone', permissions: 'r' }]);

/** Starts a cache. Records its events as text (type, path below the root, old and new data) and its errors. */
function startCache(options: ZkCacheOptions = {}, of = client) {
  const errors: Error[] = [];
  const cache = new ZkCache(of, path, { onError: (error) => void errors.push(error), ...options });
  const events: string[] = [];
  const dataOf = (event: CacheEvent) => [
    ...('old' in event ? [event.old.data.toString()] : []),
    ...('node' in event ? [event.node.data.toString()] : []),
  ];
  cache.onChange((event) => {
    const name = event.path.slice(path.length) || '/';
    events.push(`${event.type} ${name} ${dataOf(event).join('→')}`);
  });
  cache.start();
  return { cache, events, errors };
}

/** Returns the data of a cache by the paths below its root. */
const contentOf = (cache: ZkCache) =>
  Object.fromEntries(
    [...cache.entries()].map((node) => [node.path.slice(path.length), node.data.toString()]),
  );

it('copies a subtree, and follows its changes with an event for each', async () => {
  await create({ '': 'root', '/a': 'a1', '/a/b': 'b1' });
  const { cache, events } = startCache();
  await cache.initialized();
  expect(contentOf(cache)).toEqual({ '': 'root', '/a': 'a1', '/a/b': 'b1' });
  expect(cache.size).toBe(3);
  expect(cache.children()).toEqual(['a']);
  expect(cache.children(`${path}/a`)).toEqual(['b']);
  expect(cache.get()!.data.toString()).toBe('root');
  expect(cache.get(`${path}/a/b`)!.stat.version).toBe(0);
  expect(cache.staleSince).toBeUndefined();

  await writer.set(`${path}/a/b`, 'b2');
  await eventually(() => expect(events).toContain('changed /a/b b1→b2'));
  await writer.create(`${path}/a/c`, 'c1');
  await eventually(() => expect(events).toContain('created /a/c c1'));
  await writer.create(`${path}/a/c/d`);
  await eventually(() => expect(events).toContain('created /a/c/d '));
  await writer.delete(`${path}/a/c/d`);
  await writer.delete(`${path}/a/c`);
  await eventually(() => expect(events).toContain('deleted /a/c c1'));
  await eventually(() => expect(cache.size).toBe(3));
  expect(cache.children(`${path}/a`)).toEqual(['b']);
  expect(events).toEqual([
    'created / root',
    'created /a a1',
    'created /a/b b1',
    'changed /a/b b1→b2',
    'created /a/c c1',
    'created /a/c/d ',
    expect.stringMatching(/^deleted \/a\/c/),
    expect.stringMatching(/^deleted \/a\/c/),
  ]);
  await cache.close();
});

it('copies one znode with singleNode', async () => {
  await create({ '': '1', '/child': 'x' });
  const { cache, events } = startCache({ singleNode: true });
  await cache.initialized();
  await client.create(`${path}/other`, 'y');
  await client.set(path, '2');
  await eventually(() => expect(events).toEqual(['created / 1', 'changed / 1→2']));
  expect(contentOf(cache)).toEqual({ '': '2' });
  expect(cache.children()).toEqual([]);
  await cache.close();
});

it('is empty while the root is missing, and follows its creation and deletion', async () => {
  const { cache, events } = startCache();
  await cache.initialized();
  expect(cache.size).toBe(0);
  for (const round of ['1', '2']) {
    events.length = 0;
    await create({ '': round, '/a': round });
    await eventually(() => expect(events).toEqual([`created / ${round}`, `created /a ${round}`]));
    await client.delete(`${path}/a`);
    await client.delete(path);
    await eventually(() => expect(cache.size).toBe(0));
  }
  await cache.close();
});

it('emits deleted and created for a znode that was created again before the cache read it', async () => {
  await create({ '': '', '/a': 'old', '/a/below': '' });
  const { cache, events } = startCache();
  await cache.initialized();
  events.length = 0;
  const session = await client.session();
  // One batch: the cache cannot read in between.
  await Promise.all([
    session.delete(`${path}/a/below`),
    session.delete(`${path}/a`),
    session.create(`${path}/a`, 'new'),
    session.create(`${path}/a/beside`),
  ]);
  await eventually(() => expect(events).toContain('created /a/beside '));
  const ofA = () => events.filter((event) => event.includes(' /a '));
  await eventually(() => expect(ofA()).toEqual(['deleted /a old', 'created /a new']));
  await eventually(() => expect(cache.children(`${path}/a`)).toEqual(['beside']));
  expect(cache.size).toBe(3);
  await cache.close();
});

it('emits the differences once after a loss of the connection, and is stale until then', async () => {
  const link = await newLink();
  const linked = await connect({ connectString: link.connectString });
  await create({ '': '1', '/kept': '1', '/changed': '1', '/deleted': '1' });
  const { cache, events } = startCache({}, linked);
  await cache.initialized();
  events.length = 0;
  const before = performance.now();
  await link.down();
  await untilState(linked, 'SUSPENDED');
  expect(cache.staleSince).toBeGreaterThan(before);
  await writer.set(`${path}/changed`, '2');
  await writer.delete(`${path}/deleted`);
  await writer.create(`${path}/new`, '1');
  expect(cache.get(`${path}/changed`)!.data.toString()).toBe('1');
  await link.up();
  await eventually(() => expect(cache.staleSince).toBeUndefined());
  expect(events.toSorted()).toEqual([
    'changed /changed 1→2',
    'created /new 1',
    'deleted /deleted 1',
  ]);
  await writer.set(`${path}/kept`, '2');
  await eventually(() => expect(events).toContain('changed /kept 1→2'));
  await cache.close();
});

it('copies a subtree of 2,000 znodes, and leaves no watch and no znode after close()', async () => {
  await writer.create(path);
  const session = await writer.session();
  const parents = Array.from({ length: 10 }, (_, i) => `${path}/${i}`);
  await Promise.all(parents.map((parent) => session.create(parent)));
  const paths = parents.flatMap((parent) =>
    Array.from({ length: 199 }, (_, i) => `${parent}/${i}`),
  );
  await Promise.all(paths.map((each) => session.create(each, each)));
  const watchesBefore = await server.watchCount();
  const { cache } = startCache();
  await cache.initialized();
  expect(cache.size).toBe(2001);
  expect(paths.every((each) => cache.get(each)!.data.toString() === each)).toBe(true);
  await cache.close();
  expect(cache.state).toBe('closed');
  // The copy stays readable.
  expect(cache.size).toBe(2001);
  expect(cache.staleSince).toBeTypeOf('number');
  if (serverHas.watchRemoval) {
    await eventually(async () =>
      expect(await server.watchCount()).toBeLessThanOrEqual(watchesBefore),
    );
  }
  await writer.set(path, 'later');
  await client.get(path);
  expect(cache.get()!.data.toString()).toBe('');
});

describe('initialized()', () => {
  it('rejects after wait, by the signal, before start() and after close()', async () => {
    const link = await newLink();
    const linked = await connect({ connectString: link.connectString });
    await expect(new ZkCache(linked, path).initialized()).rejects.toThrow(IllegalStateError);
    await link.down();
    await untilState(linked, 'SUSPENDED');
    const { cache } = startCache({}, linked);
    await expect(cache.initialized({ wait: 5 })).rejects.toThrow(WaitTimeoutError);
    await expect(cache.initialized({ wait: 0 })).rejects.toThrow(
      `${path} was not complete within 0 ms`,
    );
    const signal = AbortSignal.abort(new Error('enough'));
    await expect(cache.initialized({ signal })).rejects.toThrow(WaitCancelledError);
    const pending = expect(cache.initialized()).rejects.toThrow(IllegalStateError);
    await cache.close();
    await pending;
    expect(() => cache.start()).toThrow('was closed already');
    await expect(cache.initialized({ wait: -1 })).rejects.toThrow('wait must be 0 or more');
  });

  it('rejects with the error that forbids to read the root', async () => {
    await create({ '': 'secret' });
    await hide(path);
    const { cache, errors } = startCache();
    await expect(cache.initialized()).rejects.toThrow(NotAuthorizedError);
    expect(errors).toEqual([expect.any(NotAuthorizedError)]);
    // It tries again after the next connection.
    await show(path);
    await expire(client, server);
    await eventually(() => expect(cache.get()?.data.toString()).toBe('secret'));
    await cache.initialized();
    await cache.close();
  });
});

it('skips a znode that its credentials may not read, and those below it, and reports it', async () => {
  await create({ '': '', '/open': '', '/secret': '', '/secret/before': '' });
  await hide(`${path}/secret`);
  const { cache, events, errors } = startCache();
  await cache.initialized();
  expect(cache.children()).toEqual(['open']);
  await create({ '/secret/after': '', '/open/after': '' });
  await eventually(() => expect(events.at(-1)).toBe('created /open/after '));
  expect(Object.keys(contentOf(cache))).toEqual(['', '/open', '/open/after']);
  expect(cache.staleSince).toBeUndefined();
  expect(errors.map(String)).toEqual([expect.stringContaining(`${path}/secret`)]);
  await cache.close();
});

describe('a znode that cannot be read any more', () => {
  it('keeps its copy, which is stale until the next read succeeds', async () => {
    await create({ '': '', '/a': '1' });
    const { cache, events, errors } = startCache();
    await cache.initialized();
    await hide(`${path}/a`);
    await writer.set(`${path}/a`, '2');
    // ZooKeeper 3.9 sends no events of a znode that the client may not read.
    await expire(client, server);
    await eventually(() => expect(errors).toEqual([expect.any(NotAuthorizedError)]));
    expect(cache.get(`${path}/a`)?.data.toString()).toBe('1');
    await eventually(() => expect(cache.staleSince).toBeTypeOf('number'));
    await show(`${path}/a`);
    await expire(client, server);
    await eventually(() => expect(cache.get(`${path}/a`)?.data.toString()).toBe('2'));
    await eventually(() => expect(cache.staleSince).toBeUndefined());
    expect(events).toEqual(['created / ', 'created /a 1', 'changed /a 1→2']);
    await cache.close();
  });

  it('is read again after a pause', async () => {
    await create({ '': '1' });
    const { cache, events, errors } = startCache();
    await cache.initialized();
    const session = await client.session();
    vi.spyOn(session, 'get').mockRejectedValueOnce(new Error('throttled'));
    await client.set(path, '2');
    await eventually(() => expect(errors).toEqual([new Error('throttled')]));
    expect(cache.staleSince).toBeTypeOf('number');
    await eventually(() => expect(cache.staleSince).toBeUndefined());
    expect(events).toEqual(['created / 1', 'changed / 1→2']);
    await cache.initialized();
    await cache.close();
  });
});

it.runIf(serverHas.persistentWatches)('reads without one-time watches', async () => {
  await create({ '': '', '/a': '' });
  const session = await client.session();
  const get = vi.spyOn(session, 'get');
  const children = vi.spyOn(session, 'children');
  const { cache } = startCache();
  await cache.initialized();
  expect(get.mock.calls).toEqual([[path], [`${path}/a`]]);
  expect(children.mock.calls).toEqual([[path]]);
  await cache.close();
});

it('ends with the client', async () => {
  const { cache } = startCache();
  await cache.initialized();
  await client.close();
  expect(cache.state).toBe('closed');
  expect(cache.staleSince).toBeTypeOf('number');
  const late = new ZkCache(client, path);
  late.start();
  await expect(late.initialized()).rejects.toThrow(ShuttingDownError);
  expect(late.state).toBe('closed');
});

it('refuses wrong arguments', async () => {
  expect(() => new ZkCache(client, 'relative')).toThrow('path must be an absolute znode path');
  const wrong = (options: object) => () => new ZkCache(client, '/x', options);
  expect(wrong({ singleNode: 1 })).toThrow('singleNode must be true or false, but is 1');
  expect(wrong({ onError: 1 })).toThrow('onError must be a function, but is 1');
  expect(wrong({ single: true })).toThrow('unknown option single in options');
  const cache = new ZkCache(client, '/x');
  cache.start();
  expect(() => cache.start()).toThrow('was started already');
  expect(() => cache.get('x')).toThrow('path must be an absolute znode path');
  expect(() => cache.children('x')).toThrow('path must be an absolute znode path');
  await cache.close();
  await cache.close();
});
