import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  type AcquireOptions,
  LockRevokedError,
  type Lock,
  MultiLock,
  Mutex,
  NonReentrantMutex,
  NodeError,
  ReadWriteLock,
  revoke,
  Semaphore,
  SharedCount,
  ZkClient,
} from 'nestjs-zookeeper/recipes';
import type { PermitOptions } from '../../lib/recipes/semaphore.js';
import { aborted, useClients } from '../support/clients.js';
import { eventually } from '../support/eventually.js';
import { useServer } from '../support/servers.js';
import { useCurator } from './curator.js';
import { Referee } from './referee.js';

/** A lock as both sides create it. */
interface Pair {
  readonly name: string;
  readonly ours: (client: ZkClient, path: string) => Lock;
  readonly theirs: (path: string) => string;
}

const MUTEX: Pair = {
  name: 'a mutex',
  ours: (client, path) => new Mutex(client, path),
  theirs: (path) => `mutex:${path}`,
};
const READ: Pair = {
  name: 'a read lock',
  ours: (client, path) => new ReadWriteLock(client, path).read,
  theirs: (path) => `read:${path}`,
};
const WRITE: Pair = {
  name: 'a write lock',
  ours: (client, path) => new ReadWriteLock(client, path).write,
  theirs: (path) => `write:${path}`,
};
const NON_REENTRANT: Pair = {
  name: 'a non-reentrant mutex',
  ours: (client, path) => new NonReentrantMutex(client, path),
  theirs: (path) => `semaphore-mutex:${path}`,
};
const SEMAPHORE: Pair = {
  name: 'a semaphore of one permit',
  ours: (client, path) => new Semaphore(client, path, { permits: 1 }),
  theirs: (path) => `semaphore:${path}:1:1`,
};

/** The rows for `each`, whose `$name` would be printed in quotes. */
const named = (...pairs: Pair[]) => pairs.map((pair) => [pair.name, pair] as const);

/** Grants for each contender, all of which it must get. */
const ROUNDS = 20;
/**
 * The minimum number of times that the lock goes from one side to the other, to prove that both
 * contended.
 */
const HANDOVERS = 10;
/**
 * Milliseconds: limits for events that must occur, for events that must not, and for a waiter to
 * appear.
 */
const LONG = 60_000;
const SHORT = 100;
const FINITE = 4_000;

describe('beside Apache Curator', () => {
  const server = useServer();
  const connect = useClients(server);
  const curator = useCurator(server);
  const paths: string[] = [];
  let cleared = 0;
  let client: ZkClient;

  beforeEach(async () => {
    client = await connect();
  });
  afterEach(async () => {
    const used = paths.slice(cleared);
    cleared = paths.length;
    // Curator releases in the background.
    await eventually(async () => {
      const left = (await Promise.all(used.map((path) => ephemeralsAt(client, path)))).flat();
      if (left.length > 0) throw new Error(`nodes are left: ${left.join(' ')}`);
    });
  });

  /** Returns a path of the test's own, under which nothing may be left. */
  function place(name: string): string {
    const path = server.path(name);
    paths.push(path);
    return path;
  }

  async function queued(path: string, count: number): Promise<void> {
    await eventually(async () =>
      expect((await client.children(path)).children).toHaveLength(count),
    );
  }

  function expectTurns({ violations, grants, handovers }: Referee, contenders: number): void {
    expect(violations).toEqual([]);
    expect(grants).toEqual({ ours: contenders * ROUNDS, Curator: contenders * ROUNDS });
    expect(handovers).toBeGreaterThanOrEqual(HANDOVERS);
  }

  describe.each(named(MUTEX, WRITE, NON_REENTRANT, SEMAPHORE))('%s', (_, { ours, theirs }) => {
    it('never grants it to both sides at a time, and grants it to each side repeatedly', async () => {
      const path = place('contended');
      const referee = new Referee();
      const other = await connect();
      await Promise.all(
        [client, client, other, other].flatMap((from) => [
          referee.begun.then(() => contend(ours(from, path), () => referee.visit('ours'))),
          curator.contend(theirs(path), ROUNDS, () => referee.visit('Curator')),
        ]),
      );
      expectTurns(referee, 4);
    });

    it('refuses tryAcquire() while the other side holds it', async () => {
      const path = place('tried');
      const lock = ours(client, path);
      const lease = await lock.acquire();
      expect(await curator.acquire('try', theirs(path), SHORT)).toBe(false);
      await lease.release();
      expect(await curator.acquire('holder', theirs(path))).toBe(true);
      expect(await lock.tryAcquire()).toBeUndefined();
      expect(await lock.tryAcquire({ wait: SHORT })).toBeUndefined();
      await curator.release('holder');
      await (await lock.acquire({ wait: LONG })).release();
    });
  });

  it.each(named(MUTEX, WRITE))(
    'grants %s in the order of arrival across both sides',
    async (_, { ours, theirs }) => {
      const path = place('order');
      const first = await ours(client, path).acquire();
      const order: string[] = [];
      const waits: Promise<void>[] = [];
      for (const [index, side] of ['Curator', 'ours', 'Curator', 'ours', 'ours'].entries()) {
        // Each waiter has its own client, because callers of one client share a znode.
        const from = await connect();
        const enter = async () => void order.push(`${index} ${side}`);
        waits.push(
          side === 'ours'
            ? ours(from, path).withLock(enter, { wait: LONG })
            : curator.contend(theirs(path), 1, enter),
        );
        await queued(path, index + 2);
      }
      await first.release();
      await Promise.all(waits);
      expect(order).toEqual(['0 Curator', '1 ours', '2 Curator', '3 ours', '4 ours']);
    },
  );

  describe('a read/write lock', () => {
    it('never grants a writer together with any caller of either side, and grants to all repeatedly', async () => {
      const path = place('read-write');
      const referee = new Referee(100);
      const other = await connect();
      await Promise.all(
        [client, other].flatMap((from) => {
          const { read, write } = new ReadWriteLock(from, path);
          return [
            referee.begun.then(() => contend(read, () => referee.visit('ours', 1))),
            referee.begun.then(() => contend(read, () => referee.visit('ours', 1))),
            referee.begun.then(() => contend(write, () => referee.visit('ours'))),
            curator.contend(`read:${path}`, ROUNDS, () => referee.visit('Curator', 1)),
            curator.contend(`read:${path}`, ROUNDS, () => referee.visit('Curator', 1)),
            curator.contend(`write:${path}`, ROUNDS, () => referee.visit('Curator')),
          ];
        }),
      );
      expectTurns(referee, 6);
    });

    it('makes a writer of either side wait for the readers of both sides', async () => {
      const path = place('readers');
      const { read, write } = new ReadWriteLock(client, path);
      const reading = await read.acquire();
      expect(await curator.acquire('reader', `read:${path}`)).toBe(true);
      expect(await curator.acquire('writer', `write:${path}`, SHORT)).toBe(false);
      await reading.release();
      expect(await write.tryAcquire({ wait: SHORT })).toBeUndefined();
      await curator.release('reader');
      const writing = await write.acquire({ wait: LONG });
      expect(await curator.acquire('late', `read:${path}`, SHORT)).toBe(false);
      await writing.release();
    });

    it('lets no reader of either side overtake a waiting writer of the other side', async () => {
      const path = place('overtaking');
      const { read, write } = new ReadWriteLock(client, path);
      const reading = await read.acquire();
      const theirs = curator.acquire('writer', `write:${path}`);
      await queued(path, 2);
      expect(await read.tryAcquire({ wait: SHORT })).toBeUndefined();
      const ours = write.acquire({ wait: LONG });
      await queued(path, 3);
      await reading.release();
      expect(await theirs).toBe(true);
      expect(await curator.acquire('reader', `read:${path}`, SHORT)).toBe(false);
      await curator.release('writer');
      await (await ours).release();
    });
  });

  describe('a semaphore of four permits', () => {
    it('never exceeds the permits, whatever number each side requests at a time', async () => {
      const path = place('semaphore');
      const referee = new Referee(4);
      const other = await connect();
      const ours = async (from: ZkClient, count: number) => {
        await referee.begun;
        const semaphore = new Semaphore(from, path, { permits: 4 });
        await contend(semaphore, () => referee.visit('ours', count), { count });
      };
      const theirs = (count: number) =>
        curator.contend(`semaphore:${path}:4:${count}`, ROUNDS, () =>
          referee.visit('Curator', count),
        );
      // Curator acquires permits one by one: a client that has one of two must leave the three that
      // this library requests.
      await Promise.all([
        ours(client, 1),
        ours(client, 2),
        ours(other, 3),
        ours(other, 1),
        theirs(1),
        theirs(1),
        theirs(1),
        theirs(2),
      ]);
      expectTurns(referee, 4);
    });

    it('counts the permits of both sides, which are released one by one', async () => {
      const path = place('permits');
      const semaphore = new Semaphore(client, path, { permits: 4 });
      const [one, two] = await semaphore.acquireEach({ count: 2 });
      expect(await curator.acquire('pair', `semaphore:${path}:4:2`)).toBe(true);
      expect(await semaphore.available()).toBe(0);
      const third = curator.acquire('third', `semaphore:${path}:4:1`);
      await queued(`${path}/leases`, 5);
      await one!.release();
      expect(await third).toBe(true);
      const pair = semaphore.acquire({ count: 2, wait: LONG });
      await queued(`${path}/leases`, 6);
      await two!.release();
      await curator.release('third');
      await (await pair).release();
      await curator.release('pair');
    });

    it('can deadlock with Curator, which acquires permits one by one; a finite wait on either side ends that', async () => {
      const path = place('crosswise');
      const semaphore = new Semaphore(client, path, { permits: 4 });
      // Curator has its first permit by now and waits behind this library for its second; this
      // library requests all.
      const cross = async (theirWait: number, ourWait: number) => {
        const all = await semaphore.acquire({ count: 4 });
        const theirs = curator.acquire('pair', `semaphore:${path}:4:2`, theirWait);
        await queued(`${path}/leases`, 5);
        const ours = semaphore.tryAcquire({ count: 4, wait: ourWait });
        await queued(`${path}/locks`, 2);
        await all.release();
        return [theirs, ours] as const;
      };
      const [granted, refused] = await cross(LONG, FINITE);
      expect(await refused).toBeUndefined();
      expect(await granted).toBe(true);
      await curator.release('pair');
      const [theirs, ours] = await cross(FINITE, LONG);
      expect(await theirs).toBe(false);
      await (await ours)!.release();
    });
  });

  describe('revocation', () => {
    it.each(named(MUTEX, READ, WRITE))(
      'by this library makes the Curator client that holds %s release it',
      async (name, { ours, theirs }) => {
        const path = place('revoked');
        const lock = ours(client, path);
        // A reader blocks only writers.
        const wanted = name === READ.name ? WRITE.ours(client, path) : lock;
        expect(await curator.acquireRevocable(path, theirs(path))).toBe(true);
        const waiting = wanted.acquire({ wait: LONG });
        await queued(path, 2);
        await lock.revoke();
        await curator.event(`revoked ${path}`);
        await (await waiting).release();
      },
    );

    it('by this library of one participant does not concern the others', async () => {
      const path = place('revoked-one');
      const { read } = new ReadWriteLock(client, path);
      for (const name of ['one', 'two']) await curator.acquireRevocable(name, `read:${path}`);
      const [, second] = await read.participants();
      await revoke(client, second!);
      await curator.event('revoked two');
      expect(await read.participants()).toMatchObject([{ state: 'holding', revoked: false }]);
      await curator.release('one');
    });

    it.each(named(MUTEX, READ, WRITE, NON_REENTRANT, SEMAPHORE))(
      'by Curator reaches the holder of %s in this library, which keeps it until it releases',
      async (name, { ours, theirs }) => {
        const path = place('asked');
        const lock = ours(client, path);
        const lease = await lock.acquire();
        const wanted = name === READ.name ? WRITE.theirs : theirs;
        const waiting = curator.acquire('next', wanted(path));
        const isSemaphore = lock instanceof Semaphore;
        await queued(isSemaphore ? `${path}/leases` : path, 2);
        const [holder] = await lock.participants();
        const theirView = await curator.participants(
          (isSemaphore ? SEMAPHORE.theirs : theirs)(path),
        );
        expect(theirView).toContain(holder!.path);
        await curator.ask('revoke', holder!.path);
        expect(await aborted(lease.revocation)).toBeInstanceOf(LockRevokedError);
        expect(lease.held).toBe(true);
        await lease.release();
        expect(await waiting).toBe(true);
        await curator.release('next');
      },
    );
  });

  describe('the participants', () => {
    const details = { name: 'till', text: 'counts', data: { shop: 7 } };
    const mine = { host: expect.any(String), pid: process.pid, details, revoked: false };
    const foreign = { text: expect.stringMatching(/^[\d.:a-f]+$/), revoked: false };

    it('of a read/write lock are equal on both sides', async () => {
      const path = place('participants');
      const { read, write } = new ReadWriteLock(client, path);
      const reading = await read.acquire({ details });
      expect(await curator.acquire('reader', `read:${path}`)).toBe(true);
      const writing = write.acquire({ details });
      await queued(path, 3);
      const theirs = curator.acquire('late', `read:${path}`);
      await queued(path, 4);
      const seen = await write.participants();
      expect(seen).toMatchObject([
        { state: 'holding', mode: 'read', ...mine },
        { state: 'holding', mode: 'read', ...foreign },
        { state: 'waiting', mode: 'write', ...mine },
        { state: 'waiting', mode: 'read', ...foreign },
      ]);
      // Curator lists readers and writers separately.
      for (const mode of ['read', 'write']) {
        const nodes = seen.filter((participant) => participant.mode === mode);
        const theirView = await curator.participants(`${mode}:${path}`);
        expect(theirView).toEqual(nodes.map(({ path }) => path));
      }
      await reading.release();
      await curator.release('reader');
      await (await writing).release();
      expect(await theirs).toBe(true);
      await curator.release('late');
    });

    it('of a semaphore are equal on both sides, and this library also lists the waiters of the queue', async () => {
      const path = place('participants');
      const semaphore = new Semaphore(client, path, { permits: 2 });
      const lease = await semaphore.acquire({ details });
      expect(await curator.acquire('second', `semaphore:${path}:2:1`)).toBe(true);
      const theirs = curator.acquire('third', `semaphore:${path}:2:1`);
      await queued(`${path}/leases`, 3);
      const waiting = semaphore.acquire({ details });
      await queued(`${path}/locks`, 2);
      const seen = await semaphore.participants();
      expect(seen).toMatchObject([
        { state: 'holding', mode: 'permit', ...mine },
        { state: 'holding', mode: 'permit', ...foreign },
        { state: 'waiting', mode: 'permit', ...foreign },
        { state: 'waiting', mode: 'permit', ...mine },
      ]);
      const theirView = await curator.participants(`semaphore:${path}:2:1`);
      expect(theirView.sort()).toEqual(
        seen
          .slice(0, 3)
          .map(({ path }) => path)
          .sort(),
      );
      await lease.release();
      expect(await theirs).toBe(true);
      await curator.release('second');
      await (await waiting).release();
      await curator.release('third');
    });
  });

  describe('a shared count', () => {
    const theirs = (method: string, path: string, ...values: number[]) =>
      curator.ask('count', method, path, ...values);
    /** Not a container: each test deletes it. */
    const shared = () => new SharedCount(client, server.path('count'));

    it('has the same value on both sides, whichever side sets it', async () => {
      const byCurator = shared();
      expect(await byCurator.get()).toBeUndefined();
      await theirs('start', byCurator.path, 4);
      expect(await byCurator.get()).toMatchObject({ value: 4 });
      await theirs('close', byCurator.path);
      await client.delete(byCurator.path);

      const count = shared();
      await count.set(7);
      await theirs('start', count.path, 1);
      expect(await theirs('get', count.path)).toEqual(['7']);
      const before = await count.get();
      await theirs('set', count.path, -9);
      expect(await count.trySet(8, before!.version)).toBe(false);
      const { value, version } = (await count.get())!;
      expect(value).toBe(-9);
      expect(await count.trySet(2 ** 31 - 1, version)).toBe(true);
      await curator.event(`count ${count.path} ${2 ** 31 - 1}`);
      expect(await theirs('try-set', count.path, 5)).toEqual(['true']);
      expect((await count.get())!.value).toBe(5);
      await theirs('close', count.path);
      await client.delete(count.path);
    });

    it('wakes the waiters of one side when the other side raises the permits', async () => {
      const path = place('shared-permits');
      const count = shared();
      const permit = `semaphore:${path}:${count.path}:1`;
      const semaphore = new Semaphore(client, path, { permits: count });
      await count.set(1);
      await theirs('start', count.path, 1);
      expect(await curator.acquire('first', permit)).toBe(true);

      const waiting = semaphore.acquire({ wait: LONG });
      await queued(`${path}/leases`, 2);
      await theirs('set', count.path, 2);
      const lease = await waiting;

      const third = curator.acquire('third', permit);
      await queued(`${path}/leases`, 3);
      await count.set(3);
      expect(await third).toBe(true);

      await count.set(1);
      await curator.event(`count ${count.path} 1`);
      await lease.release();
      await curator.release('first');
      expect(await semaphore.tryAcquire({ wait: SHORT })).toBeUndefined();
      expect(await curator.acquire('fourth', permit, SHORT)).toBe(false);
      await curator.release('third');
      await (await semaphore.acquire({ wait: LONG })).release();

      await theirs('close', count.path);
      await client.delete(count.path);
    });
  });

  describe('a multi-lock', () => {
    it('of overlapping sets of mixed locks neither breaks exclusion nor deadlocks', async () => {
      const parent = place('multi');
      const places = [MUTEX, NON_REENTRANT, WRITE].map(({ ours, theirs }, index) => {
        const path = `${parent}/${index}`;
        const lock = (from: ZkClient) => ours(from, path);
        return { lock, spelled: theirs(path), referee: new Referee() };
      });
      const [a, b, c] = places as [Place, Place, Place];
      type Place = (typeof places)[number];
      const other = await connect();
      const visit = (side: 'ours' | 'Curator', set: Place[]) => async () =>
        void (await Promise.all(set.map(({ referee }) => referee.visit(side))));
      const ours = async (from: ZkClient, ...set: Place[]) => {
        await Promise.all(set.map(({ referee }) => referee.begun));
        await contend(new MultiLock(set.map(({ lock }) => lock(from))), visit('ours', set));
      };
      // Curator acquires them in the order of the list, so the list has the order that this library
      // uses.
      const theirs = (...set: Place[]) =>
        curator.contend(set.map(({ spelled }) => spelled).join(), ROUNDS, visit('Curator', set));
      await Promise.all([
        ours(client, b, a),
        ours(other, c, b),
        ours(client, c, a),
        ours(other, c, a, b),
        theirs(a, b),
        theirs(b, c),
        theirs(a, c),
        theirs(a, b, c),
      ]);
      for (const { referee } of places) expectTurns(referee, 3);
    });
  });

  it('leaves nothing behind once the server has reaped the empty containers', async () => {
    const gone = async () => {
      for (const path of paths) expect(await client.exists(path)).toBeUndefined();
    };
    await eventually(gone);
  });
});

async function contend(
  lock: Lock<PermitOptions> | MultiLock,
  visit: () => Promise<void>,
  options: PermitOptions & AcquireOptions = {},
): Promise<void> {
  for (let round = 0; round < ROUNDS; round++) {
    await lock.withLock(visit, { wait: LONG, ...options });
  }
}

/** Returns the ephemeral nodes at a path and below it. */
async function ephemeralsAt(client: ZkClient, path: string): Promise<string[]> {
  try {
    const { children, stat } = await client.children(path);
    if (stat.ephemeralOwner !== '0') return [path];
    return (
      await Promise.all(children.map((name) => ephemeralsAt(client, `${path}/${name}`)))
    ).flat();
  } catch (error) {
    if (error instanceof NodeError && error.code === 'NO_NODE') return [];
    throw error;
  }
}
