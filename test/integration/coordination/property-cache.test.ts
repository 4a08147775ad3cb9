import { setTimeout as delay } from 'node:timers/promises';
import fc from 'fast-check';
import { afterAll, beforeAll, expect, it } from 'vitest';
import {
  type CacheEvent,
  ConnectionError,
  NodeError,
  SessionExpiredError,
  ZkCache,
  ZkClient,
} from 'nestjs-zookeeper/coordination/recipes';
import type { Session } from '../../../lib/client/index.js';
import { eventually } from '../../support/eventually.js';
import { Link } from '../../support/link.js';
import { clientDefaults, useServer } from '../../support/servers.js';
import { expire } from '../../support/sessions.js';

/*
 * Two clients write at random below one znode while the connections of all clients break and their sessions end. The
 * events of a cache must be a history of each znode, and the copy must at last be equal to the znodes.
 */

const server = useServer();
const clients: ZkClient[] = [];
const links: Link[] = [];
const READER = 2;

/** Paths below the root of the cache. */
const PATHS = ['', '/a', '/a/b', '/a/b/c', '/a/d', '/e', '/e/f'];

type Step =
  | { type: 'create'; writer: number; path: string }
  | { type: 'set'; writer: number; path: string }
  | { type: 'delete'; writer: number; path: string }
  | { type: 'drop'; client: number }
  | { type: 'expire'; client: number }
  | { type: 'pause' };

const writer = fc.nat({ max: 1 });
const client = fc.nat({ max: READER });
const path = fc.constantFrom(...PATHS);
const schedule = fc.array(
  fc.oneof<fc.MaybeWeightedArbitrary<Step>[]>(
    { weight: 12, arbitrary: fc.record({ type: fc.constant('create'), writer, path }) },
    { weight: 6, arbitrary: fc.record({ type: fc.constant('set'), writer, path }) },
    { weight: 8, arbitrary: fc.record({ type: fc.constant('delete'), writer, path }) },
    { weight: 4, arbitrary: fc.record({ type: fc.constant('pause') }) },
    { weight: 2, arbitrary: fc.record({ type: fc.constant('drop'), client }) },
    { weight: 1, arbitrary: fc.record({ type: fc.constant('expire'), client }) },
  ),
  { minLength: 10, maxLength: 80 },
);

beforeAll(async () => {
  for (let i = 0; i <= READER; i++) {
    const link = await Link.to(server.port);
    const retry = { type: 'forever', delay: 10 } as const;
    const connected = new ZkClient({
      ...clientDefaults,
      connectString: link.connectString,
      sessionTimeout: 6000,
      retry,
    });
    links.push(link);
    clients.push(connected);
    await connected.connect();
  }
});
afterAll(async () => {
  await Promise.all(clients.map((connected) => connected.close()));
  for (const link of links) await link[Symbol.asyncDispose]();
});

let written = 0;
const ended = new WeakSet<Session>();

/** Runs a step without waiting for its effect. */
async function run(root: string, step: Step): Promise<void> {
  try {
    if (step.type === 'drop') return void (await links[step.client]!.cut());
    if (step.type === 'expire') {
      const session = await clients[step.client]!.session();
      // The client may not have detected an earlier end yet.
      if (ended.has(session)) return;
      ended.add(session);
      return await expire(session, server.port);
    }
    if (step.type === 'pause') return;
    const target = root + step.path;
    const session = await clients[step.writer]!.session();
    if (step.type === 'create') await session.create(target, String(++written));
    else if (step.type === 'set') await session.set(target, String(++written));
    else await session.delete(target);
  } catch (error) {
    const expected =
      error instanceof NodeError ||
      error instanceof ConnectionError ||
      error instanceof SessionExpiredError;
    if (!expected) throw error;
  }
}

type Content = Record<string, { data: string; czxid: number; mzxid: number }>;

async function readTree(reader: ZkClient, root: string, content: Content = {}): Promise<Content> {
  try {
    const { data, stat } = await reader.get(root);
    content[root] = { data: data.toString(), czxid: stat.czxid, mzxid: stat.mzxid };
    for (const name of (await reader.children(root)).children) {
      await readTree(reader, `${root}/${name}`, content);
    }
  } catch (error) {
    if (!(error instanceof NodeError && error.code === 'NO_NODE')) throw error;
  }
  return content;
}

function contentOf(cache: ZkCache): Content {
  return Object.fromEntries(
    [...cache.entries()].map(({ path, data, stat: { czxid, mzxid } }) => [
      path,
      { data: data.toString(), czxid, mzxid },
    ]),
  );
}

/** Checks that each event follows the one before of the same znode, and repeats no transaction. */
function checkHistory(events: readonly CacheEvent[]): void {
  const last = new Map<string, CacheEvent>();
  const newest = new Map<string, number>();
  for (const event of events) {
    const before = last.get(event.path);
    const known = before && 'node' in before ? before.node : undefined;
    expect('old' in event ? event.old : undefined, `old of ${event.path}`).toBe(known);
    if ('node' in event) {
      expect(event.node.stat.mzxid).toBeGreaterThan(newest.get(event.path) ?? 0);
      newest.set(event.path, event.node.stat.mzxid);
    }
    last.set(event.path, event);
  }
}

it(
  'any schedule of writes and faults leaves the copy equal to the znodes',
  { retry: 0, timeout: 120_000 },
  async () => {
    // A failure message contains its seed. FAST_CHECK_SEED repeats it; FAST_CHECK_SECONDS runs for longer.
    const { FAST_CHECK_SEED: seed, FAST_CHECK_SECONDS: seconds } = process.env;
    const end = performance.now() + Number(seconds ?? 2) * 1000;
    let runs = 0;
    const property = fc.asyncProperty(schedule, async (steps) => {
      if (performance.now() > end) return;
      runs++;
      const root = server.path('property');
      const cache = new ZkCache(clients[READER]!, root, { onError: () => {} });
      const events: CacheEvent[] = [];
      cache.onChange((event) => events.push(event));
      cache.start();
      const running: Promise<void>[] = [];
      for (const step of steps) {
        const done = run(root, step);
        running.push(done);
        if (step.type === 'pause') await delay(2);
        else if (step.type === 'drop' || step.type === 'expire') await done;
      }
      await Promise.all(running);
      // A write whose reply was lost may be applied later than this.
      await eventually(async () => {
        expect(contentOf(cache)).toEqual(await readTree(clients[0]!, root));
        expect(cache.staleSince).toBeUndefined();
      });
      await cache.initialized();
      checkHistory(events);
      await cache.close();
    });
    await fc.assert(property, {
      numRuns: seed ? 1 : 10_000,
      ...(seed ? { seed: Number(seed) } : {}),
      endOnFailure: true,
    });
    if (seconds) console.log({ runs });
    expect(runs).toBeGreaterThan(0);
  },
);
