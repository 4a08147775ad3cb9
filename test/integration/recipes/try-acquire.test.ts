import { randomUUID } from 'node:crypto';
import {
  type AcquireOptions,
  type Lock,
  Mutex,
  ReadWriteLock,
  Semaphore,
  type ZkClient,
} from 'nestjs-zookeeper/recipes';
import { describe, expect } from 'vitest';
import { useClients, useLinks } from '../../support/clients.js';
import { nodesUnder, untilNothingLeft, observed, untilNodes } from '../../support/recipe-nodes.js';
import { useServer } from '../../support/servers.js';
import { afterEach, beforeEach, it } from '../../support/virtual-time.js';

const server = useServer();
const newLink = useLinks(server);
const connect = useClients(server);

let path: string;
let client: ZkClient;
let other: ZkClient;
beforeEach(async () => {
  path = server.path('try-acquire');
  [client, other] = await Promise.all([connect(), connect()]);
});
/** Every test leaves neither znodes nor watches. */
afterEach(async () => untilNothingLeft(server, await connect(), path));

/** Milliseconds: longer than any test, so that a lock lingers until it is requested. */
const linger = 3_600_000;
/** Milliseconds in which a try waits for a znode that is likely to be deleted. */
const TRY_TIMEOUT = 500;
/** Milliseconds: a few round trips. */
const SOON = 20;

const mutex = (client: ZkClient, path: string): Lock => new Mutex(client, path);
const write = (client: ZkClient, path: string): Lock => new ReadWriteLock(client, path).write;
const read = (client: ZkClient, path: string): Lock => new ReadWriteLock(client, path).read;

interface Pair {
  readonly name: string;
  readonly lingering: (client: ZkClient, path: string) => Lock;
  readonly wanted: (client: ZkClient, path: string) => Lock;
  readonly options?: AcquireOptions;
}

const strict = { fairness: 'strict' } as const;
const PAIRS: readonly Pair[] = [
  { name: 'mutex beside a mutex', lingering: mutex, wanted: mutex },
  { name: 'strict mutex beside a mutex', lingering: mutex, wanted: mutex, options: strict },
  { name: 'write lock beside a write lock', lingering: write, wanted: write },
  { name: 'read lock beside a write lock', lingering: write, wanted: read },
  { name: 'strict read lock beside a write lock', lingering: write, wanted: read, options: strict },
  { name: 'write lock beside a read lock', lingering: read, wanted: write },
];

/** Connects a client whose messages take `latency` milliseconds in each direction. */
async function connectAt(latency: number): Promise<ZkClient> {
  const { connectString } = await newLink({ latency });
  return connect({ connectString });
}

/** Creates the node that another process would create, with `data`. */
function nodeOf(client: ZkClient, path: string, marker: string, data: object | string) {
  const text = typeof data === 'string' ? data : JSON.stringify({ host: 'other', pid: 1, ...data });
  return client.create(`${path}/_c_${randomUUID()}-${marker}`, text, {
    mode: 'ephemeral-sequential',
  });
}

async function dataUnder(client: ZkClient, path: string): Promise<Record<string, unknown>> {
  const [name] = await nodesUnder(client, path);
  const { data } = await client.get(`${path}/${name}`);
  return JSON.parse(data.toString()) as Record<string, unknown>;
}

/** Expects that a try is refused, and returns the milliseconds until then. */
async function refusedAfter(lock: Lock, options?: AcquireOptions): Promise<number> {
  const started = performance.now();
  expect(await lock.tryAcquire(options)).toBeUndefined();
  return performance.now() - started;
}

/** Expects that a try is granted, and releases the lease. */
async function expectGranted(lock: Lock, options?: AcquireOptions): Promise<void> {
  const lease = await lock.tryAcquire(options);
  expect(lease?.held).toBe(true);
  await lease!.release();
}

/** Expects that so many of these tries are granted, and releases their leases. */
async function expectGrants(tries: Promise<{ release(): Promise<void> } | undefined>[], n: number) {
  const leases = (await Promise.all(tries)).filter((lease) => lease !== undefined);
  expect(leases).toHaveLength(n);
  await Promise.all(leases.map((lease) => lease.release()));
}

describe.each(PAIRS)(
  'tryAcquire() beside a lingering lock: $name',
  ({ lingering, wanted, options }) => {
    it('succeeds as soon as the lock lingers, if the few messages take less than 500 ms', async () => {
      for (const latency of [0, 0.3, 10, 50, 120]) {
        const [holder, other] = await Promise.all([connectAt(latency), connectAt(latency)]);
        await lingering(holder, path).withLock(() => {}, { linger });
        expect(await nodesUnder(other, path)).toHaveLength(1);
        await expectGranted(wanted(other, path), options);
        await lingering(holder, path).withLock(() => {}, { linger });
        await expectGranted(wanted(other, path), options);
        await untilNothingLeft(server, other, path);
      }
      // The deletion of the znode takes four messages after the first refusal.
      const [holder, other] = await Promise.all([connectAt(130), connectAt(130)]);
      await lingering(holder, path).withLock(() => {}, { linger });
      await nodesUnder(other, path);
      await refusedAfter(wanted(other, path), options);
    });

    it('is granted to at least one of two processes, and never to a writer together with another caller', async () => {
      const [holder, one, two] = await Promise.all([connectAt(10), connectAt(10), connect()]);
      for (let round = 0; round < 5; round++) {
        await lingering(holder, path).withLock(() => {}, { linger });
        const tries = [one, two].map((client) => wanted(client, path).tryAcquire(options));
        await expectGrants(tries, wanted === read ? 2 : 1);
      }
    });

    it('is refused after 500 ms while the lock is held', async () => {
      const held = await lingering(client, path).acquire({ linger });
      const waited = await refusedAfter(wanted(other, path), options);
      expect(waited).toBeGreaterThan(TRY_TIMEOUT);
      expect(waited).toBeLessThan(TRY_TIMEOUT + SOON);
      expect(held.held).toBe(true);
      await held.release();
      await expectGranted(wanted(other, path), options);
    });
  },
);

it.each(PAIRS.filter(({ lingering, wanted }) => lingering !== wanted))(
  'several calls of tryAcquire() in the client of the lingering lock succeed: $name',
  async ({ lingering, wanted, options }) => {
    for (const latency of [0, 50]) {
      const client = await connectAt(latency);
      await lingering(client, path).withLock(() => {}, { linger });
      const tries = [1, 2, 3].map(() => wanted(client, path).tryAcquire(options));
      await expectGrants(tries, wanted === read ? 3 : 1);
      await untilNothingLeft(server, client, path);
    }
  },
);

describe('a mutex', () => {
  it('that was handed over to a caller with linger lingers, and its znode says so before the release', async () => {
    for (let round = 0; round < 5; round++) {
      const first = await mutex(client, path).acquire();
      const second = mutex(client, path).acquire({ linger });
      expect(await dataUnder(other, path)).not.toHaveProperty('linger');
      await first.release();
      await (await second).release();
      expect(await dataUnder(other, path)).toMatchObject({ linger: true });
      await expectGranted(mutex(other, path));
    }
  });

  it('is granted again without the network while its znode is being marked as lingering', async () => {
    const [client, other] = await Promise.all([connectAt(20), connect()]);
    const lock = mutex(client, path);
    const first = await lock.acquire();
    const second = lock.acquire({ linger });
    await first.release();
    const released = (await second).release();
    let began = false;
    const third = lock.withLock(() => void (began = true), { linger });
    expect(began).toBe(true);
    await Promise.all([released, third]);
    expect(await dataUnder(other, path)).toMatchObject({ linger: true });
    await expectGranted(mutex(other, path));
  });

  it('is marked as lingering again after a holder without linger removed the mark', async () => {
    const lock = mutex(client, path);
    await lock.withLock(() => {}, { linger });
    expect(await dataUnder(other, path)).toMatchObject({ linger: true });
    const plain = await lock.acquire();
    await expect.poll(() => dataUnder(other, path)).not.toHaveProperty('linger');
    const next = lock.acquire({ linger });
    await plain.release();
    await (await next).release();
    expect(await dataUnder(other, path)).toMatchObject({ linger: true });
    await expectGranted(mutex(other, path));
  });

  it('is marked as lingering if a late reply confirms a mark that a later holder removes', async () => {
    const [client, other] = await Promise.all([connectAt(40), connect()]);
    const lock = mutex(client, path);
    const wait = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
    const first = await lock.acquire();
    const second = lock.acquire({ linger });
    const third = lock.acquire();
    const fourth = lock.acquire({ linger });
    await first.release();
    // Each of these is held for longer than the 50 ms after which its details are written.
    const marking = await second;
    await wait(60);
    await marking.release();
    const plain = await third;
    await wait(55);
    await plain.release();
    const last = await fourth;
    // The reply to the write of the mark arrives meanwhile.
    await wait(25);
    await last.release();
    await expectGranted(mutex(other, path));
  });

  it('does not linger if its znode cannot be marked', async () => {
    const first = await mutex(client, path).acquire();
    const second = mutex(client, path).acquire({ linger });
    await first.release();
    const lease = await second;
    const [node] = await nodesUnder(other, path);
    // The library writes with the version it read, so its write fails.
    await other.set(`${path}/${node}`, 'somebody else wrote this');
    await lease.release();
    expect(await nodesUnder(other, path)).toHaveLength(0);
  });

  it('that is kept by holdAtLeast refuses tryAcquire()', async () => {
    await mutex(client, path).withLock(() => {}, { linger: 1_000, holdAtLeast: 1_000 });
    expect(await mutex(other, path).tryAcquire()).toBeUndefined();
    expect(await mutex(client, path).tryAcquire()).toBeUndefined();
  });

  it('does not linger for a caller with strict fairness', async () => {
    const lease = await mutex(client, path).acquire({ linger, ...strict });
    expect(await dataUnder(client, path)).not.toHaveProperty('linger');
    await lease.release();
    expect(await nodesUnder(client, path)).toHaveLength(0);
  });

  it('is granted to one of two tryAcquire() calls of a client that overlap a release by another process', async () => {
    const [holder, far] = await Promise.all([connect(), connectAt(40)]);
    const held = await mutex(holder, path).acquire();
    const early = mutex(far, path).tryAcquire();
    // The node of the early call is behind the holder's, and the reply is on its way.
    await untilNodes(holder, path, 2);
    await held.release();
    await expectGrants([early, mutex(far, path).tryAcquire()], 1);
  });

  it('that another process holds refuses many tryAcquire() calls of one client soon, and leaves nothing', async () => {
    const [holder, other] = await Promise.all([connect(), connect()]);
    const held = await mutex(holder, path).acquire();
    const started = performance.now();
    await expectGrants(
      Array.from({ length: 50 }, () => mutex(other, path).tryAcquire()),
      0,
    );
    expect(performance.now() - started).toBeLessThan(SOON);
    await held.release();
  });
});

describe.each([
  ['mutex', mutex, 'lock-'],
  ['read lock', read, '__WRIT__'],
  ['write lock', write, '__WRIT__'],
] as const)('tryAcquire() of a %s behind the node of another process', (_name, at, marker) => {
  const standing = async (data: object | string) => {
    const path = server.path('behind');
    const [other, client] = await Promise.all([connect(), connect()]);
    await other.create(path);
    const node = await nodeOf(other, path, marker, data);
    return { path, other, client, node };
  };

  it.each([
    ['holds', {}],
    ['is marked as not lingering', { linger: false }],
    ["is Curator's", '10.0.0.1'],
    ['has unknown details', 'null'],
    ['says nothing', ''],
    ['was revoked', '__REVOKE__'],
  ])('that %s fails at once', async (_how, data) => {
    const { path, other, client, node } = await standing(data);
    expect(await refusedAfter(at(client, path))).toBeLessThan(SOON);
    await other.delete(node);
  });

  it('that does not linger fails at once, although it also waits for a lingering one', async () => {
    const { path, other, client, node } = await standing({ linger: true });
    const patient = await nodeOf(other, path, marker, {});
    expect(await refusedAfter(at(client, path))).toBeLessThan(SOON);
    await Promise.all([other.delete(node), other.delete(patient)]);
  });
});

it('tryAcquire() of a read lock reads the queue itself if other readers of its client wait for a writer', async () => {
  const [writer, far] = await Promise.all([connect(), connectAt(40)]);
  const writing = await write(writer, path).acquire();
  const waiting = read(far, path).acquire();
  await expect.poll(() => server.watchCount(), { interval: 5 }).toBe(1);
  expect(await read(far, path).tryAcquire()).toBeUndefined();
  await writing.release();
  // The watch event has not reached this client yet.
  const tried = await read(far, path).tryAcquire();
  expect(tried?.held).toBe(true);
  await Promise.all([tried!.release(), (await waiting).release()]);
});

describe('tryAcquire() of a permit beside a request at the head of the queue', () => {
  /**
   * One permit is held. A request of another process for two permits is at the head of the queue
   * and has created its lease nodes.
   */
  const asking = async (permits: number) => {
    const path = server.path('door');
    const [holder, other, client] = await Promise.all([connect(), connect(), connect()]);
    const held = await new Semaphore(holder, path, { permits }).acquire();
    const door = await nodeOf(other, `${path}/locks`, 'lock-', { permits });
    const leases: string[] = [];
    for (let i = 0; i < 2; i++) {
      leases.push(await nodeOf(other, `${path}/leases`, 'lease-', { permits }));
    }
    const semaphore = new Semaphore(client, path, { permits });
    const leave = async () => {
      for (const node of leases) await other.delete(node);
      await held.release();
      await untilNothingLeft(server, other, `${path}/locks`, `${path}/leases`);
    };
    return { path, other, door, semaphore, leave };
  };

  it('that waits for permits fails at once, so that it does not overtake the larger request', async () => {
    const { other, door, semaphore, leave } = await asking(2);
    expect(await refusedAfter(semaphore)).toBeLessThan(SOON);
    await other.delete(door);
    await leave();
  });

  it('that leaves a permit free succeeds when that request has left the queue', async () => {
    const { path, other, door, semaphore, leave } = await asking(4);
    const trying = observed(semaphore.tryAcquire());
    await untilNodes(other, `${path}/locks`, 2);
    expect(trying.settled).toBe(false);
    await other.delete(door);
    const lease = await trying.promise;
    expect(lease?.held).toBe(true);
    await lease!.release();
    await leave();
  });

  it('that stays at the head fails after 500 ms, although permits are free', async () => {
    const { other, door, semaphore, leave } = await asking(4);
    expect(await refusedAfter(semaphore)).toBeGreaterThan(TRY_TIMEOUT);
    await other.delete(door);
    await leave();
  });
});
