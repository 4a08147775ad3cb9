import { randomUUID } from 'node:crypto';
import {
  type AcquireOptions,
  type Lock,
  Mutex,
  NonReentrantMutex,
  ReadWriteLock,
  Semaphore,
  type ZkClient,
} from 'nestjs-zookeeper/recipes';
import { afterEach, describe, expect, it } from 'vitest';
import { useClients } from '../../support/clients.js';
import { eventually } from '../../support/eventually.js';
import { PlainLink } from '../../support/harness.js';
import { nodesUnder, untilNothingLeft, observed, untilNodes } from '../../support/recipe-nodes.js';
import { useServer } from '../../support/servers.js';

const server = useServer();
const connect = useClients(server);

/** Milliseconds: longer than any test, so that a lock lingers until it is requested. */
const linger = 3_600_000;
/**
 * Milliseconds. A refusal within this time did not wait for a node that is likely to be deleted.
 */
const SOON = 400;

const mutex = (client: ZkClient, path: string): Lock => new Mutex(client, path);
const write = (client: ZkClient, path: string): Lock => new ReadWriteLock(client, path).write;
const read = (client: ZkClient, path: string): Lock => new ReadWriteLock(client, path).read;

interface Pair {
  readonly name: string;
  readonly lingering: (client: ZkClient, path: string) => Lock;
  readonly wanted: (client: ZkClient, path: string) => Lock;
  readonly options?: AcquireOptions;
}

const PAIRS: readonly Pair[] = [
  { name: 'mutex beside a mutex', lingering: mutex, wanted: mutex },
  {
    name: 'strict mutex beside a mutex',
    lingering: mutex,
    wanted: mutex,
    options: { fairness: 'strict' },
  },
  { name: 'write lock beside a write lock', lingering: write, wanted: write },
  { name: 'read lock beside a write lock', lingering: write, wanted: read },
  {
    name: 'strict read lock beside a write lock',
    lingering: write,
    wanted: read,
    options: { fairness: 'strict' },
  },
  { name: 'write lock beside a read lock', lingering: read, wanted: write },
];

const open: PlainLink[] = [];
afterEach(() => {
  for (const link of open.splice(0)) link.close();
});

/** Connects a client whose messages take `latency` milliseconds in each direction. */
async function connectAt(latency: number): Promise<ZkClient> {
  const link = await PlainLink.to(server.port, { latency });
  open.push(link);
  return connect({ connectString: link.connectString });
}

/** Limits the test to about half a second of round trips. */
const roundsAt = (latency: number) => (latency < 50 ? 3 : 1);

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

/**
 * Repeats the attempts until they are all refused within `SOON`, because the machine may be busy.
 */
async function refusedSoon(attempt: () => Promise<readonly unknown[]>): Promise<void> {
  await eventually(async () => {
    const started = performance.now();
    for (const lease of await attempt()) expect(lease).toBeUndefined();
    expect(performance.now() - started).toBeLessThan(SOON);
  });
}

/** Expects that a try is granted, and releases the lease. */
async function expectGranted(lock: Lock, options?: AcquireOptions): Promise<void> {
  const lease = await lock.tryAcquire(options);
  expect(lease?.held).toBe(true);
  await lease!.release();
}

describe.each(PAIRS)(
  'tryAcquire() beside a lingering lock: $name',
  ({ lingering, wanted, options }) => {
    it.each([0, 10, 50])('succeeds at a latency of %i ms', async (latency) => {
      const path = server.path('far');
      const [holder, other] = await Promise.all([connectAt(latency), connectAt(latency)]);
      for (let round = 0; round < roundsAt(latency); round++) {
        await lingering(holder, path).withLock(() => {}, { linger });
        expect(await nodesUnder(other, path)).toHaveLength(1);
        await expectGranted(wanted(other, path), options);
      }
      await untilNothingLeft(server, other, path);
    });

    it('succeeds as soon as the lock lingers', async () => {
      const path = server.path('at-once');
      const [holder, other] = await Promise.all([connect(), connect()]);
      for (let round = 0; round < 20; round++) {
        await lingering(holder, path).withLock(() => {}, { linger });
        await expectGranted(wanted(other, path), options);
      }
    });

    it('is granted to at least one of two processes, and never to a writer together with another caller', async () => {
      const path = server.path('two');
      const [holder, one, two] = await Promise.all([connectAt(10), connectAt(10), connect()]);
      for (let round = 0; round < 10; round++) {
        await lingering(holder, path).withLock(() => {}, { linger });
        const tries = [one, two].map((client) => wanted(client, path).tryAcquire(options));
        const leases = (await Promise.all(tries)).filter((lease) => lease !== undefined);
        expect(leases).toHaveLength(wanted === read ? 2 : 1);
        await Promise.all(leases.map((lease) => lease.release()));
      }
      await untilNothingLeft(server, two, path);
    });

    it('is refused while the lock is held', async () => {
      const path = server.path('held');
      const [holder, other] = await Promise.all([connect(), connect()]);
      const held = await lingering(holder, path).acquire({ linger });
      expect(await wanted(other, path).tryAcquire(options)).toBeUndefined();
      expect(held.held).toBe(true);
      await held.release();
      await expectGranted(wanted(other, path), options);
      await untilNothingLeft(server, other, path);
    });
  },
);

describe.each(PAIRS.filter(({ lingering, wanted }) => lingering !== wanted))(
  'tryAcquire() in the client of the lingering lock: $name',
  ({ lingering, wanted, options }) => {
    it.each([0, 50])('succeeds at a latency of %i ms, several calls at once', async (latency) => {
      const path = server.path('same-client');
      const client = await connectAt(latency);
      for (let round = 0; round < roundsAt(latency); round++) {
        await lingering(client, path).withLock(() => {}, { linger });
        const tries = [1, 2, 3].map(() => wanted(client, path).tryAcquire(options));
        const leases = (await Promise.all(tries)).filter((lease) => lease !== undefined);
        expect(leases).toHaveLength(wanted === read ? 3 : 1);
        await Promise.all(leases.map((lease) => lease.release()));
      }
      await untilNothingLeft(server, client, path);
    });
  },
);

describe.each([
  ['mutex', mutex],
  ['write lock', write],
])('a %s', (_name, lockAt) => {
  it('that was handed over to a caller with linger lingers, and its znode says so before the release', async () => {
    const path = server.path('mark');
    const [client, other] = await Promise.all([connect(), connect()]);
    const lock = lockAt(client, path);
    for (let round = 0; round < 5; round++) {
      const first = await lock.acquire();
      const second = lock.acquire({ linger });
      expect(await dataUnder(other, path)).not.toHaveProperty('linger');
      await first.release();
      await (await second).release();
      expect(await dataUnder(other, path)).toMatchObject({ linger: true });
      await expectGranted(lockAt(other, path));
    }
    await untilNothingLeft(server, client, path);
  });

  it('is granted again without the network while its znode is being marked as lingering', async () => {
    const path = server.path('marking');
    const [client, other] = await Promise.all([connectAt(20), connect()]);
    const lock = lockAt(client, path);
    const first = await lock.acquire();
    const second = lock.acquire({ linger });
    await first.release();
    const released = (await second).release();
    let began = false;
    const third = lock.withLock(() => void (began = true), { linger });
    expect(began).toBe(true);
    await Promise.all([released, third]);
    expect(await dataUnder(other, path)).toMatchObject({ linger: true });
    await expectGranted(lockAt(other, path));
    await untilNothingLeft(server, client, path);
  });

  it('is marked as lingering again after a holder without linger removed the mark', async () => {
    const path = server.path('unmarked');
    const [client, other] = await Promise.all([connect(), connect()]);
    const lock = lockAt(client, path);
    await lock.withLock(() => {}, { linger });
    expect(await dataUnder(other, path)).toMatchObject({ linger: true });
    const plain = await lock.acquire();
    await expect.poll(() => dataUnder(other, path)).not.toHaveProperty('linger');
    const next = lock.acquire({ linger });
    await plain.release();
    await (await next).release();
    expect(await dataUnder(other, path)).toMatchObject({ linger: true });
    await expectGranted(lockAt(other, path));
  });

  it('does not linger if its znode cannot be marked', async () => {
    const path = server.path('unsaid');
    const [client, other] = await Promise.all([connect(), connect()]);
    const lock = lockAt(client, path);
    const first = await lock.acquire();
    const second = lock.acquire({ linger });
    await first.release();
    const lease = await second;
    const [node] = await nodesUnder(other, path);
    // The library writes with the version it read, so its write fails.
    await other.set(`${path}/${node}`, 'somebody else wrote this');
    await lease.release();
    expect(await nodesUnder(other, path)).toHaveLength(0);
    await untilNothingLeft(server, client, path);
  });

  it('that is kept by holdAtLeast refuses tryAcquire()', async () => {
    const path = server.path('kept');
    const [client, other] = await Promise.all([connect(), connect()]);
    await lockAt(client, path).withLock(() => {}, { linger, holdAtLeast: 60_000 });
    expect(await lockAt(other, path).tryAcquire()).toBeUndefined();
    expect(await lockAt(client, path).tryAcquire()).toBeUndefined();
  });

  it('does not linger for a caller with strict fairness', async () => {
    const path = server.path('strict');
    const client = await connect();
    const lease = await lockAt(client, path).acquire({ linger, fairness: 'strict' });
    expect(await dataUnder(client, path)).not.toHaveProperty('linger');
    await lease.release();
    expect(await nodesUnder(client, path)).toHaveLength(0);
  });

  it('is granted to one of two tryAcquire() calls of a client that overlap a release by another process', async () => {
    const path = server.path('overlap');
    const [holder, far] = await Promise.all([connect(), connectAt(40)]);
    for (let round = 0; round < 5; round++) {
      const held = await lockAt(holder, path).acquire();
      const early = lockAt(far, path).tryAcquire();
      // The node of the early call is behind the holder's, and the reply is on its way.
      await untilNodes(holder, path, 2);
      await held.release();
      const late = lockAt(far, path).tryAcquire();
      const leases = (await Promise.all([early, late])).filter((lease) => lease !== undefined);
      expect(leases).toHaveLength(1);
      await leases[0]!.release();
    }
    await untilNothingLeft(server, far, path);
  });

  it('that another process holds refuses many tryAcquire() calls of one client soon, and leaves nothing', async () => {
    const path = server.path('many');
    const [holder, other] = await Promise.all([connect(), connect()]);
    const held = await lockAt(holder, path).acquire();
    await refusedSoon(() =>
      Promise.all(Array.from({ length: 200 }, () => lockAt(other, path).tryAcquire())),
    );
    await held.release();
    await untilNothingLeft(server, other, path);
  });
});

const MARKED: [string, (client: ZkClient, path: string) => Lock, string][] = [
  ['mutex', mutex, 'lock-'],
  ['read lock', read, '__WRIT__'],
  ['write lock', write, '__WRIT__'],
];

describe.each(MARKED)(
  'tryAcquire() of a %s behind the node of another process',
  (_name, at, marker) => {
    const standing = async (data: object | string) => {
      const path = server.path('behind');
      const [other, client] = await Promise.all([connect(), connect()]);
      await other.create(path);
      const node = await nodeOf(other, path, marker, data);
      return { path, other, client, node };
    };

    it('that lingers succeeds when that node is deleted', async () => {
      const { path, other, client, node } = await standing({ linger: true });
      const trying = observed(at(client, path).tryAcquire());
      await untilNodes(other, path, 2);
      expect(trying.settled).toBe(false);
      await other.delete(node);
      const lease = await trying.promise;
      expect(lease?.held).toBe(true);
      await lease!.release();
      await untilNothingLeft(server, other, path);
    });

    it('that lingers fails after a while if that node stays', async () => {
      const { path, other, client, node } = await standing({ linger: true });
      const started = performance.now();
      expect(await at(client, path).tryAcquire()).toBeUndefined();
      expect(performance.now() - started).toBeGreaterThan(SOON);
      await untilNodes(other, path, 1);
      await other.delete(node);
      await untilNothingLeft(server, other, path);
    });

    it.each([
      ['holds', {}],
      ['is marked as not lingering', { linger: false }],
      ["is Curator's", '10.0.0.1'],
      ['has unknown details', 'null'],
      ['says nothing', ''],
      ['was revoked', '__REVOKE__'],
    ])('that %s fails at once', async (_how, data) => {
      const { path, other, client, node } = await standing(data);
      await refusedSoon(async () => [await at(client, path).tryAcquire()]);
      await other.delete(node);
      await untilNothingLeft(server, other, path);
    });

    it('that does not linger fails at once, although it also waits for a lingering one', async () => {
      const { path, other, client, node } = await standing({ linger: true });
      const patient = await nodeOf(other, path, marker, {});
      await refusedSoon(async () => [await at(client, path).tryAcquire()]);
      await Promise.all([other.delete(node), other.delete(patient)]);
      await untilNothingLeft(server, other, path);
    });
  },
);

describe('tryAcquire() of a read lock', () => {
  it('reads the queue itself if other readers of its client wait for a writer', async () => {
    const path = server.path('fresh-look');
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
});

describe.each<[string, (client: ZkClient, path: string) => Lock]>([
  ['mutex', mutex],
  ['write lock', write],
  ['read lock', read],
  ['semaphore', (client, path) => new Semaphore(client, path, { permits: 1 })],
  ['non-reentrant mutex', (client, path) => new NonReentrantMutex(client, path)],
])('tryAcquire() of a %s', (_name, at) => {
  it('succeeds as soon as another process has released', async () => {
    const path = server.path('released');
    const [holder, other] = await Promise.all([connect(), connectAt(5)]);
    for (let round = 0; round < 20; round++) {
      const [from, to] = round % 2 ? [holder, other] : [other, holder];
      const held = await at(from, path).acquire();
      await held.release();
      await expectGranted(at(to, path));
    }
  });
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
    await refusedSoon(async () => [await semaphore.tryAcquire()]);
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

  it('that stays at the head fails after a while, although permits are free', async () => {
    const { path, other, door, semaphore, leave } = await asking(4);
    const trying = observed(semaphore.tryAcquire());
    await untilNodes(other, `${path}/locks`, 2);
    expect(trying.settled).toBe(false);
    expect(await trying.promise).toBeUndefined();
    await other.delete(door);
    await leave();
  });
});
