import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ZkCache } from 'nestjs-zookeeper/coordination/recipes';
import { useClients } from '../support/clients.js';
import { eventually } from '../support/eventually.js';
import { useServer } from '../support/servers.js';
import { Curator } from './curator.js';

const STEPS = 1500;

const missing = Curator.missing();
if (missing) console.log(`Left out: the interop tests with Apache Curator (${missing}).`);

/** Returns the mzxids by path, in their order. */
function byPath(znodes: readonly string[]): Record<string, number[]> {
  const all: Record<string, number[]> = {};
  for (const znode of znodes) {
    const [path, mzxid] = znode.split('=') as [string, string];
    (all[path] ??= []).push(Number(mzxid));
  }
  return all;
}

/** Checks that a cache emitted, for each znode, some of the transactions of `written`, in their order. */
function checkHistory(history: readonly string[], written: Record<string, number[]>): void {
  for (const [path, mzxids] of Object.entries(byPath(history))) {
    expect(
      mzxids.toSorted((a, b) => a - b),
      path,
    ).toEqual(mzxids);
    expect(new Set(mzxids).size, path).toBe(mzxids.length);
    expect(written[path], path).toEqual(expect.arrayContaining(mzxids));
  }
}

describe.skipIf(missing)('beside Apache Curator', () => {
  const server = useServer();
  const connect = useClients(server);
  let curator: Curator;

  beforeAll(async () => {
    curator = await Curator.start(server.connectString);
  });
  afterAll(async () => {
    await curator?.[Symbol.asyncDispose]();
  });

  it('a cache has the state of CuratorCache, and emits the transactions of each znode in the same order', async () => {
    const path = server.path('cache');
    const client = await connect();
    await client.create(path);
    const root = `${path}=${(await client.exists(path))!.mzxid}`;
    const earlier = await curator.writeTree(path, 100, 1);
    const cache = new ZkCache(client, path);
    const history: string[] = [];
    cache.onChange((event) => {
      if ('node' in event) history.push(`${event.path}=${event.node.stat.mzxid}`);
    });
    cache.start();
    await Promise.all([cache.initialized(), curator.startCache(path)]);
    const [one, other] = await Promise.all([
      curator.writeTree(path, STEPS, 2),
      curator.writeTree(path, STEPS, 3),
    ]);
    const written = byPath([root, ...earlier, ...one, ...other]);
    for (const mzxids of Object.values(written)) mzxids.sort((a, b) => a - b);
    const state = () => [...cache.entries()].map((node) => `${node.path}=${node.stat.mzxid}`);
    await eventually(async () => {
      expect(state().toSorted()).toEqual((await curator.cacheState(path)).toSorted());
    });
    expect(cache.size).toBeGreaterThan(1);
    checkHistory(history, written);
    checkHistory(await curator.cacheHistory(path), written);
    // Most transactions have an event of their own.
    expect(history.length).toBeGreaterThan(STEPS / 4);
    await curator.closeCache(path);
    await cache.close();
  });
});
