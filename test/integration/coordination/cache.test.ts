import { describe, expect, it, vi } from 'vitest';
import {
  type CacheEvent,
  IllegalStateError,
  WaitTimeoutError,
  NotAuthorizedError,
  ShuttingDownError,
  WaitCancelledError,
  ZkCache,
  type ZkCacheOptions,
  type ZkClient,
} from 'nestjs-zookeeper/coordination/recipes';
import { expire, untilState, useClients } from '../../support/clients.js';
import { eventually } from '../../support/eventually.js';
import { useLinks } from '../../support/link.js';
import { failureOf } from '../../support/recipe-nodes.js';
import { serverHas, useServer } from '../../support/servers.js';

const server = useServer();
const connect = useClients(server);
const link = useLinks(server);

/** The events of a cache as text: type, path below the root, old and new data. */
function recordEvents(cache: ZkCache): string[] {
  const events: string[] = [];
  const dataOf = (event: CacheEvent) => [
    ...('old' in event ? [event.old.data.toString()] : []),
    ...('node' in event ? [event.node.data.toString()] : []),
  ];
  cache.onChange((event) => {
    const path = event.path.slice(cache.path.length) || '/';
    events.push(`${event.type} ${path} ${dataOf(event).join('→')}`);
  });
  return events;
}

function startCache(client: ZkClient, path: string, options?: ZkCacheOptions) {
  const cache = new ZkCache(client, path, options);
  const events = recordEvents(cache);
  cache.start();
  return { cache, events };
}

function contentOf(cache: ZkCache): Record<string, string> {
  return Object.fromEntries([...cache.entries()].map(({ path, data }) => [path, data.toString()]));
}

it('copies a subtree, and follows its changes with an event for each', async () => {
  const path = server.path('tree');
  const [client, writer] = await Promise.all([connect(), connect()]);
  await writer.create(path, 'root');
  await writer.create(`${path}/a`, 'a1');
  await writer.create(`${path}/a/b`, 'b1');
  const { cache, events } = startCache(client, path);
  await cache.initialized();
  expect(contentOf(cache)).toEqual({ [path]: 'root', [`${path}/a`]: 'a1', [`${path}/a/b`]: 'b1' });
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
  const path = server.path('single');
  const client = await connect();
  await client.create(path, '1');
  await client.create(`${path}/child`, 'x');
  const { cache, events } = startCache(client, path, { singleNode: true });
  await cache.initialized();
  await client.create(`${path}/other`, 'y');
  await client.set(path, '2');
  await eventually(() => expect(events).toEqual(['created / 1', 'changed / 1→2']));
  expect(contentOf(cache)).toEqual({ [path]: '2' });
  expect(cache.children()).toEqual([]);
  await cache.close();
});

it('is empty while the root is missing, and follows its creation and deletion', async () => {
  const path = server.path('missing');
  const client = await connect();
  const { cache, events } = startCache(client, path);
  await cache.initialized();
  expect(cache.size).toBe(0);
  for (const round of ['1', '2']) {
    events.length = 0;
    await client.create(path, round);
    await client.create(`${path}/a`, round);
    await eventually(() => expect(events).toEqual([`created / ${round}`, `created /a ${round}`]));
    await client.delete(`${path}/a`);
    await client.delete(path);
    await eventually(() => expect(cache.size).toBe(0));
  }
  await cache.close();
});

it('emits deleted and created for a znode that was created again before the cache read it', async () => {
  const path = server.path('again');
  const client = await connect();
  await client.create(path);
  await client.create(`${path}/a`, 'old');
  await client.create(`${path}/a/below`);
  const { cache, events } = startCache(client, path);
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
  const ofA = events.filter((event) => event.includes(' /a '));
  expect(ofA).toEqual(['deleted /a old', 'created /a new']);
  await eventually(() => expect(cache.children(`${path}/a`)).toEqual(['beside']));
  expect(cache.size).toBe(3);
  await cache.close();
});

describe('after a loss of the connection', () => {
  it('emits the differences once, and is stale until then', async () => {
    const path = server.path('cut');
    const broken = await link();
    const client = await connect({ connectString: broken.connectString });
    const writer = await connect();
    await writer.create(path, '1');
    for (const name of ['kept', 'changed', 'deleted']) await writer.create(`${path}/${name}`, '1');
    const { cache, events } = startCache(client, path);
    await cache.initialized();
    events.length = 0;
    const before = performance.now();
    await broken.down();
    await untilState(client, 'SUSPENDED');
    expect(cache.staleSince).toBeGreaterThan(before);
    await writer.set(`${path}/changed`, '2');
    await writer.delete(`${path}/deleted`);
    await writer.create(`${path}/new`, '1');
    expect(cache.get(`${path}/changed`)!.data.toString()).toBe('1');
    await broken.up();
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

  it('reads everything again in a new session', async () => {
    const path = server.path('expired');
    const [client, writer] = await Promise.all([connect(), connect()]);
    await writer.create(path, '1');
    await writer.create(`${path}/a`, '1');
    const { cache, events } = startCache(client, path);
    await cache.initialized();
    const lost = untilState(client, 'LOST').then(() => cache.staleSince);
    await expire(client, server);
    expect(await lost).toBeTypeOf('number');
    await writer.set(`${path}/a`, '2');
    await writer.create(`${path}/b`, '1');
    await eventually(() => expect(cache.children().toSorted()).toEqual(['a', 'b']));
    await eventually(() => expect(cache.staleSince).toBeUndefined());
    expect(events.filter((event) => event.includes('/a'))).toEqual([
      'created /a 1',
      'changed /a 1→2',
    ]);
    await writer.delete(`${path}/b`);
    await eventually(() => expect(cache.children()).toEqual(['a']));
    await cache.close();
  });
});

it('copies a subtree of 2,000 znodes, and leaves no watch and no znode after close()', async () => {
  const path = server.path('large');
  const [client, writer] = await Promise.all([connect(), connect()]);
  await writer.create(path);
  const session = await writer.session();
  const parents = Array.from({ length: 10 }, (_, i) => `${path}/${i}`);
  await Promise.all(parents.map((parent) => session.create(parent)));
  const paths = parents.flatMap((parent) =>
    Array.from({ length: 199 }, (_, i) => `${parent}/${i}`),
  );
  await Promise.all(paths.map((each) => session.create(each, each)));
  const watchesBefore = await server.watchCount();
  const { cache } = startCache(client, path);
  await cache.initialized();
  expect(cache.size).toBe(2001);
  expect(paths.every((each) => cache.get(each)!.data.toString() === each)).toBe(true);
  await cache.close();
  expect(cache.state).toBe('closed');
  // The copy stays readable.
  expect(cache.size).toBe(2001);
  expect(cache.staleSince).toBeTypeOf('number');
  if (client.transport === 'wire' && serverHas.watchRemoval) {
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
    const path = server.path('waits');
    const broken = await link();
    const client = await connect({ connectString: broken.connectString });
    const latent = new ZkCache(client, path);
    await expect(latent.initialized()).rejects.toThrow(IllegalStateError);
    await broken.down();
    await untilState(client, 'SUSPENDED');
    const { cache } = startCache(client, path);
    await expect(cache.initialized({ wait: 5 })).rejects.toThrow(WaitTimeoutError);
    await expect(cache.initialized({ wait: 0 })).rejects.toThrow(
      `${path} was not complete within 0 ms`,
    );
    const signal = AbortSignal.abort(new Error('enough'));
    await expect(cache.initialized({ signal })).rejects.toThrow(WaitCancelledError);
    const pending = failureOf(cache.initialized());
    await cache.close();
    expect(await pending).toBeInstanceOf(IllegalStateError);
    expect(() => cache.start()).toThrow('was closed already');
    await expect(cache.initialized({ wait: -1 })).rejects.toThrow('wait must be 0 or more');
  });

  it('rejects with the error that forbids to read the root', async () => {
    const path = server.path('forbidden');
    const [client, owner] = await Promise.all([
      connect(),
      connect({ auth: [{ scheme: 'digest', user: 'o', password: 'p' }] }),
    ]);
    await owner.create(path, 'secret');
    await owner.setAcl(path, [{ scheme: 'auth', id: '', permissions: 'cdrwa' }]);
    const errors: unknown[] = [];
    const { cache } = startCache(client, path, { onError: (error) => errors.push(error) });
    await expect(cache.initialized()).rejects.toThrow(NotAuthorizedError);
    expect(errors).toEqual([expect.any(NotAuthorizedError)]);
    // It tries again after the next connection.
    await owner.setAcl(path, [{ scheme: 'world', id: 'anyone', permissions: 'r' }]);
    await expire(client, server);
    await eventually(() => expect(cache.get()?.data.toString()).toBe('secret'));
    await cache.initialized();
    await cache.close();
  });
});

it('skips and reports a znode that its credentials may not read', async () => {
  const path = server.path('partly');
  const [client, owner] = await Promise.all([
    connect(),
    connect({ auth: [{ scheme: 'digest', user: 'o', password: 'p' }] }),
  ]);
  await owner.create(path);
  await owner.create(`${path}/open`);
  await owner.create(`${path}/secret`);
  await owner.setAcl(`${path}/secret`, [{ scheme: 'auth', id: '', permissions: 'cdrwa' }]);
  const errors: unknown[] = [];
  const { cache } = startCache(client, path, { onError: (error) => errors.push(error) });
  await cache.initialized();
  expect(cache.children()).toEqual(['open']);
  expect(errors).toHaveLength(1);
  expect(String(errors[0])).toContain(`${path}/secret`);
  await cache.close();
});

it('leaves out the znodes below one that its credentials may not read', async () => {
  const path = server.path('below');
  const [client, owner] = await Promise.all([
    connect(),
    connect({ auth: [{ scheme: 'digest', user: 'o', password: 'p' }] }),
  ]);
  for (const name of ['', '/open', '/secret', '/secret/before']) await owner.create(path + name);
  await owner.setAcl(`${path}/secret`, [{ scheme: 'auth', id: '', permissions: 'cdrwa' }]);
  const { cache, events } = startCache(client, path, { onError: () => {} });
  await cache.initialized();
  await owner.create(`${path}/secret/after`);
  await owner.create(`${path}/open/after`);
  await eventually(() => expect(events.at(-1)).toBe('created /open/after '));
  expect([...cache.entries()].map((node) => node.path.slice(path.length))).toEqual([
    '',
    '/open',
    '/open/after',
  ]);
  expect(cache.staleSince).toBeUndefined();
  await cache.close();
});

describe('a znode that cannot be read any more', () => {
  it('keeps its copy, which is stale until the next read succeeds', async () => {
    const path = server.path('unreadable');
    const [client, owner] = await Promise.all([
      connect(),
      connect({ auth: [{ scheme: 'digest', user: 'o', password: 'p' }] }),
    ]);
    await owner.create(path);
    await owner.create(`${path}/a`, '1');
    const errors: Error[] = [];
    const { cache, events } = startCache(client, path, { onError: (error) => errors.push(error) });
    await cache.initialized();
    await owner.setAcl(`${path}/a`, [{ scheme: 'auth', id: '', permissions: 'cdrwa' }]);
    await owner.set(`${path}/a`, '2');
    // ZooKeeper 3.9 sends no events of a znode that the client may not read.
    await expire(client, server);
    await eventually(() => expect(errors).toEqual([expect.any(NotAuthorizedError)]));
    expect(cache.get(`${path}/a`)?.data.toString()).toBe('1');
    await eventually(() => expect(cache.staleSince).toBeTypeOf('number'));
    await owner.setAcl(`${path}/a`, [{ scheme: 'world', id: 'anyone', permissions: 'r' }]);
    await expire(client, server);
    await eventually(() => expect(cache.get(`${path}/a`)?.data.toString()).toBe('2'));
    await eventually(() => expect(cache.staleSince).toBeUndefined());
    expect(events).toEqual(['created / ', 'created /a 1', 'changed /a 1→2']);
    await cache.close();
  });

  it('is read again after a pause', async () => {
    const path = server.path('pause');
    const client = await connect();
    await client.create(path, '1');
    const errors: Error[] = [];
    const { cache, events } = startCache(client, path, { onError: (error) => errors.push(error) });
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

it.runIf(serverHas.persistentWatches)(
  'uses one-time watches if the path has another persistent watch, which is not recursive',
  async () => {
    const path = server.path('taken');
    const [client, writer] = await Promise.all([connect(), connect()]);
    if (client.transport !== 'wire') return;
    await writer.create(path);
    const other = await client.addWatch(path, () => {});
    const { cache, events } = startCache(client, path);
    await cache.initialized();
    await writer.create(`${path}/a`, '1');
    await eventually(() => expect(events).toContain('created /a 1'));
    await writer.set(`${path}/a`, '2');
    await eventually(() => expect(events).toContain('changed /a 1→2'));
    await cache.close();
    other.remove();
  },
);

it.runIf(serverHas.persistentWatches)(
  'reads without one-time watches over the wire transport',
  async () => {
    const path = server.path('watches');
    const client = await connect();
    if (client.transport !== 'wire') return;
    await client.create(path);
    await client.create(`${path}/a`);
    const session = await client.session();
    const get = vi.spyOn(session, 'get');
    const children = vi.spyOn(session, 'children');
    const { cache } = startCache(client, path);
    await cache.initialized();
    expect(get.mock.calls).toEqual([[path], [`${path}/a`]]);
    expect(children.mock.calls).toEqual([[path]]);
    await cache.close();
  },
);

it('ends with the client', async () => {
  const path = server.path('client-closed');
  const client = await connect();
  const { cache } = startCache(client, path);
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
  const client = await connect();
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
