import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { beforeEach, describe, expect, it } from 'vitest';
import {
  DistributedAtomicLong,
  DistributedBarrier,
  DistributedDoubleBarrier,
  GroupMember,
  PersistentNode,
  WaitTimeoutError,
  ZkCache,
} from 'nestjs-zookeeper/coordination';
import { NodeError, type ZkClient } from 'nestjs-zookeeper/recipes';
import type { DistributedAtomicLongOptions } from '../../lib/coordination/recipes/distributed-atomic-long.js';
import { useClients } from '../support/clients.js';
import { eventually } from '../support/eventually.js';
import { useServer } from '../support/servers.js';
import { useCurator } from './curator.js';
import { KAZOO_SCENARIOS, PYTHON } from './programs.js';

/** Increments by each of four callers of each side. */
const TIMES = 50;
/** Writes of each of two writers below the root of a cache. */
const STEPS = 1500;
/** Milliseconds: limits for what must happen, and for what must not, and the time to live of a znode. */
const LONG = 60_000;
const SHORT = 100;
const TTL = 1000;

const server = useServer();
const connect = useClients(server);
const curator = useCurator(server);
let client: ZkClient;
let path: string;

beforeEach(async () => {
  client = await connect();
  path = server.path('shared');
});

/** Returns no children where the server has removed the container after its last child. */
async function childrenOf(znode: string): Promise<readonly string[]> {
  try {
    return (await client.children(znode)).children;
  } catch (error) {
    if (error instanceof NodeError && error.code === 'NO_NODE') return [];
    throw error;
  }
}

describe('a counter beside that of Curator', () => {
  /** Returns Curator's `succeeded`, `preValue` and `postValue`. */
  const theirs = async (method: string, ...values: bigint[]) => {
    const [succeeded, pre, post] = await curator.ask('counter', method, path, ...values);
    return [succeeded === 'true', BigInt(pre!), BigInt(post!)];
  };
  const initialize = (value: bigint) => curator.succeeds('counter', 'initialize', path, value);

  it('has the same value on both sides', async () => {
    const ours = new DistributedAtomicLong(client, path);
    expect(await theirs('get')).toEqual([true, 0n, 0n]);
    await client.create(path);
    expect(await theirs('get')).toEqual([true, 0n, 0n]);
    expect(await ours.get()).toBe(0n);
    await client.delete(path);
    expect(await ours.initialize(-5n)).toBe(true);
    expect(await initialize(1n)).toBe(false);
    expect(await theirs('add', 2n ** 62n)).toEqual([true, -5n, 2n ** 62n - 5n]);
    expect(await ours.subtract(2n ** 62n)).toEqual({ preValue: 2n ** 62n - 5n, postValue: -5n });
    expect((await theirs('compare-and-set', -5n, 6n))[0]).toBe(true);
    expect(await ours.compareAndSet(6n, 7n)).toMatchObject({ succeeded: true });
    expect((await theirs('compare-and-set', 6n, 8n)).slice(0, 2)).toEqual([false, 7n]);
    await ours.forceSet(-(2n ** 63n));
    expect((await theirs('get'))[2]).toBe(-(2n ** 63n));
  });

  const retry = { type: 'fixed', delay: 2 } as const;
  it.each<[string, () => DistributedAtomicLongOptions]>([
    ['', () => ({ retry: { ...retry, maxRetries: 1000 } })],
    [
      ' under the same lock',
      () => ({ retry: { ...retry, maxRetries: 5 }, lockPath: `${path}-lock`, lockWait: LONG }),
    ],
  ])('counts exactly while both sides increment it%s', async (_, make) => {
    const options = make();
    const callers = await Promise.all(
      [1, 2, 3, 4].map(async () => new DistributedAtomicLong(await connect(), path, options)),
    );
    const increment = curator.ask('counter', 'increment', path, options.lockPath ?? 'none', TIMES);
    await eventually(async () => expect(await callers[0]!.get()).toBeGreaterThan(0n));
    const ours = await Promise.all(
      callers.map(async (counter) => {
        const values: bigint[] = [];
        while (values.length < TIMES) values.push((await counter.increment()).postValue);
        return values;
      }),
    );
    const values = [...ours.flat(), ...(await increment).map(BigInt)];
    expect(values.toSorted((a, b) => Number(a - b))).toEqual(
      Array.from({ length: 8 * TIMES }, (_each, index) => BigInt(index + 1)),
    );
    // The server may have reaped the container of the lock.
    expect((await client.exists(`${path}-lock`))?.numChildren ?? 0).toBe(0);
  });

  it('waits for the lock that Curator holds', async () => {
    const lockPath = `${path}-lock`;
    const noRetry = () => undefined;
    const options = { retry: noRetry, lockPath, lockWait: SHORT };
    const counter = new DistributedAtomicLong(client, path, options);
    const { get } = client;
    let disturb = true;
    client.get = async (znode) => {
      const read = await get.call(client, znode);
      if (disturb) await theirs('add', 1n);
      return read;
    };
    await initialize(0n);
    expect(await curator.acquire('holder', `mutex:${lockPath}`)).toBe(true);
    await expect(counter.increment()).rejects.toThrow(`lock "${lockPath}" was not granted`);
    await curator.release('holder');
    disturb = false;
    expect(await counter.increment()).toEqual({ preValue: 1n, postValue: 2n });
  });
});

describe('a barrier beside that of Curator', () => {
  const theirWait = (wait: number) => curator.succeeds('barrier', 'wait', path, wait);

  it('blocks both sides until either of them removes it', async () => {
    const ours = new DistributedBarrier(client, path);
    await ours.setBarrier();
    await curator.ask('barrier', 'set', path);
    expect(await theirWait(SHORT)).toBe(false);
    const both = [ours.waitOnBarrier(), theirWait(LONG)];
    await curator.ask('barrier', 'remove', path);
    expect(await Promise.all(both)).toEqual([undefined, true]);
    await curator.ask('barrier', 'set', path);
    await expect(ours.waitOnBarrier({ wait: SHORT })).rejects.toThrow(WaitTimeoutError);
    const again = [ours.waitOnBarrier(), theirWait(LONG)];
    await ours.removeBarrier();
    await Promise.all(again);
    expect(await client.exists(path)).toBeUndefined();
  });
});

describe('a double barrier beside that of Curator', () => {
  const join = (name: string, members: number) =>
    curator.ask('barrier', 'join', name, members, path);
  const theirs = (method: 'enter' | 'leave', name: string) =>
    curator.succeeds('barrier', method, name);

  it('lets members of both sides begin and end together, in each order', async () => {
    for (let round = 0; round < 6; round++) {
      const ours = await Promise.all(
        [0, 1].map(async () => new DistributedDoubleBarrier(await connect(), path, 4)),
      );
      const names = [`a${round}`, `b${round}`];
      for (const name of names) await join(name, 4);
      const calls = (method: 'enter' | 'leave') => [
        ...ours.map((each) => () => each[method]({ wait: LONG })),
        ...names.map((name) => () => theirs(method, name)),
      ];
      await together(calls('enter'), round, async (started) => {
        await eventually(async () => {
          const present = await childrenOf(path);
          expect(present.filter((name) => name !== 'ready')).toHaveLength(started);
        });
      });
      await together(calls('leave'), round + 1, () => Promise.resolve());
      // The server may have deleted the empty container.
      expect((await client.exists(path))?.numChildren ?? 0).toBe(0);
    }
  });

  /** Starts one call after the other, from the call `first` on. Checks that none ends before all have started. */
  async function together(
    calls: (() => Promise<unknown>)[],
    first: number,
    whenStarted: (count: number) => Promise<void>,
  ): Promise<void> {
    const running: Promise<unknown>[] = [];
    let over = 0;
    for (let i = 0; i < calls.length; i++) {
      expect(over).toBe(0);
      const call = calls[(first + i) % calls.length]!;
      running.push(call().then((result) => (over++, result)));
      if (i < calls.length - 1) await whenStarted(i + 1);
    }
    // Curator resolves to true, ours to undefined.
    expect(await Promise.all(running)).not.toContain(false);
  }

  it('lets the others leave when a leave times out on our side', async () => {
    const ours = new DistributedDoubleBarrier(client, path, 2);
    await join('slow', 2);
    await Promise.all([ours.enter(), theirs('enter', 'slow')]);
    await expect(ours.leave({ wait: SHORT })).rejects.toThrow(WaitTimeoutError);
    expect(await theirs('leave', 'slow')).toBe(true);
    expect(await childrenOf(path)).toEqual([]);
  });
});

describe('a cache beside CuratorCache', () => {
  /** Returns the mzxids by path, in their order. */
  function byPath(znodes: readonly string[]): Record<string, number[]> {
    const all: Record<string, number[]> = {};
    for (const znode of znodes) {
      const [name, mzxid] = znode.split('=') as [string, string];
      (all[name] ??= []).push(Number(mzxid));
    }
    return all;
  }

  it('has the same state, and emits the transactions of each znode in the same order', async () => {
    const write = (steps: number, seed: number) => curator.ask('cache', 'write', path, steps, seed);
    await client.create(path);
    const root = `${path}=${(await client.exists(path))!.mzxid}`;
    const earlier = await write(100, 1);
    const cache = new ZkCache(client, path);
    const history: string[] = [];
    cache.onChange((event) => {
      if ('node' in event) history.push(`${event.path}=${event.node.stat.mzxid}`);
    });
    cache.start();
    await Promise.all([cache.initialized(), curator.ask('cache', 'start', path)]);
    const [one, other] = await Promise.all([write(STEPS, 2), write(STEPS, 3)]);
    const state = () => [...cache.entries()].map((node) => `${node.path}=${node.stat.mzxid}`);
    await eventually(async () => {
      expect(state().toSorted()).toEqual((await curator.ask('cache', 'state', path)).toSorted());
    });
    expect(cache.size).toBeGreaterThan(1);

    const written = byPath([root, ...earlier, ...one, ...other]);
    for (const emitted of [history, await curator.ask('cache', 'history', path)]) {
      for (const [znode, mzxids] of Object.entries(byPath(emitted))) {
        const inOrder = [...new Set(mzxids)].sort((a, b) => a - b);
        expect(mzxids, znode).toEqual(inOrder);
        expect(written[znode], znode).toEqual(expect.arrayContaining(mzxids));
      }
    }
    // Most transactions have an event of their own.
    expect(history.length).toBeGreaterThan(STEPS / 4);
    await curator.ask('cache', 'close', path);
    await cache.close();
  });
});

describe('a GroupMember beside that of Curator', () => {
  const join = (id: string, data: string) => curator.ask('member', 'join', id, path, data);
  const seenByTheirs = async (id = 'java') =>
    (await curator.ask('member', 'current', id)).filter(Boolean);
  const seenBy = ({ members }: GroupMember) =>
    [...members].map(([id, data]) => `${id}=${data.toString()}`);

  it('sees the same members with the same data, on both sides', async () => {
    const ours = new GroupMember(client, path, { id: 'node', data: 'n1' });
    ours.start();
    await join('java', 'j1');
    await expect.poll(() => seenBy(ours)).toEqual(['java=j1', 'node=n1']);
    await expect.poll(() => seenByTheirs()).toEqual(['java=j1', 'node=n1']);
    ours.setData('n2');
    await curator.ask('member', 'set', 'java', 'j2');
    await expect.poll(() => seenBy(ours)).toEqual(['java=j2', 'node=n2']);
    await expect.poll(() => seenByTheirs()).toEqual(['java=j2', 'node=n2']);
    await ours.close();
    await expect.poll(() => seenByTheirs()).toEqual(['java=j2']);
    const again = new GroupMember(client, path, { id: 'node' });
    again.start();
    await curator.ask('member', 'close', 'java');
    await expect.poll(() => seenBy(again)).toEqual(['node=']);
    await again.close();
  });

  it('shares a path with Curator and with a Party of kazoo', async () => {
    // A Party lists only the znodes whose names contain this word.
    const ids = { node: 'node__party__', java: 'java__party__' };
    const ours = new GroupMember(client, path, { id: ids.node, data: 'node-data' });
    ours.start();
    await join(ids.java, 'java-data');
    const args = [KAZOO_SCENARIOS, server.connectString, 'party_beside_others', path];
    const party = spawn(PYTHON, args, { stdio: ['pipe', 'pipe', 'inherit'] });
    const lines = createInterface(party.stdout);
    const next = async () => ((await once(lines, 'line')) as [string])[0];
    expect(await next()).toBe('ready');

    const all = ['java-data', 'node-data', 'python'];
    const data = (members: readonly string[]) => members.map((each) => each.split('=')[1]).sort();
    await expect.poll(() => data(seenBy(ours))).toEqual(all);
    await expect.poll(async () => data(await seenByTheirs(ids.java))).toEqual(all);
    await expect
      .poll(() => {
        party.stdin.write('\n');
        return next();
      })
      .toBe(all.join(' '));
    // The id of a Party begins with a random number.
    const others = [...ours.members.keys()].filter((id) => id !== ids.java && id !== ids.node);
    expect(others).toEqual([expect.stringMatching(/^[0-9a-f]{32}__party__$/)]);
    party.stdin.end();
    await expect
      .poll(() => seenBy(ours))
      .toEqual([`${ids.java}=java-data`, `${ids.node}=node-data`]);
    await curator.ask('member', 'close', ids.java);
    await ours.close();
  });
});

describe('a persistent node beside that of Curator', () => {
  beforeEach(() => void (path = `${path}/a`));
  const czxid = async () => (await client.exists(path))?.czxid;
  const data = async () => (await client.get(path)).data.toString();

  it.each(['ephemeral', 'persistent', 'container'] as const)(
    'of mode %s creates again what the other side deletes',
    async (mode) => {
      const keep = async () => {
        const node = new PersistentNode(client, path, { mode, data: 'node' });
        node.start();
        await node.waitForInitialCreate();
        return node;
      };
      const first = await keep();
      await curator.ask('node', 'keep', path, mode.toUpperCase(), 'java');
      const created = (await czxid())!;
      await first.close();
      // Curator creates the znode that we have deleted.
      await expect.poll(czxid).toBeGreaterThan(created);
      expect(await data()).toBe('java');
      const second = await keep();
      expect(await data()).toBe('node');
      const taken = (await client.exists(path))!;
      expect(taken.ephemeralOwner === client.sessionId).toBe(false);
      // Curator's close deletes the znode, and this side creates it.
      await curator.ask('node', 'close', path);
      await expect.poll(czxid).toBeGreaterThan(taken.czxid);
      expect(await data()).toBe('node');
      await second.close();
      expect(await client.exists(path)).toBeUndefined();
    },
  );

  it.each(['Curator', 'this library'])(
    'with a TTL keeps the container of both, and the server deletes it after both have ended, %s as the last',
    async (last) => {
      const touches = async () => (await client.exists(`${path}/touch`))?.version ?? -1;
      const node = new PersistentNode(client, path, { ttl: TTL, data: 'x' });
      const ours = {
        start: async () => {
          node.start();
          await node.waitForInitialCreate();
        },
        close: () => node.close(),
      };
      const theirs = {
        start: () => curator.ask('node', 'keep-ttl', path, TTL, 'x'),
        close: () => curator.ask('node', 'close', path),
      };
      const [one, other] = last === 'Curator' ? [ours, theirs] : [theirs, ours];
      await one.start();
      await other.start();
      await expect.poll(touches).toBeGreaterThan(1);
      const created = (await client.exists(`${path}/touch`))!;
      await one.close();
      // More than one TTL, as each side writes the child twice in a TTL.
      const before = await touches();
      await expect.poll(touches, { timeout: 10 * TTL }).toBeGreaterThan(before + 4);
      expect((await client.exists(`${path}/touch`))!.czxid).toBe(created.czxid);
      await other.close();
      await expect.poll(() => client.exists(path), { timeout: 30 * TTL }).toBeUndefined();
    },
  );
});
