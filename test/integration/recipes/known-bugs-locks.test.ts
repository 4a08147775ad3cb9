import { setTimeout as delay } from 'node:timers/promises';
import { once } from 'node:events';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { describe, expect, it, vi } from 'vitest';
import {
  LeaseLostError,
  type Lock,
  LockBusyError,
  LockTimeoutError,
  MultiLock,
  Mutex,
  NonReentrantMutex,
  ReadWriteLock,
  Semaphore,
  SequenceExhaustedError,
  SharedCount,
  ZkClient,
} from 'nestjs-zookeeper/recipes';
import { LiveSession } from '../../../lib/client/live-session.js';
import { resolveOptions } from '../../../lib/embedded/options.js';
import { ServerThread } from '../../../lib/embedded/server-thread.js';
import { aborted, expire, untilState, useClients } from '../../support/clients.js';
import { Link } from '../../support/link.js';
import {
  failureOf,
  nodesUnder,
  untilNothingLeft,
  observed,
  untilNodes,
} from '../../support/recipe-nodes.js';
import { serverHas, useServer } from '../../support/servers.js';

// Bugs of other lock libraries, each with the number of its issue, tested on each recipe that could
// have the bug.
// The tests of the teaching recipes contain those that concern them.

const server = useServer();
const connect = useClients(server);

interface Recipe {
  name: string;
  make: (client: ZkClient, path: string) => Lock;
  /** The directories of the waiters' and the holders' nodes. */
  queue: string;
  held: string;
}

const exclusive: Recipe[] = [
  { name: 'mutex', make: (client, path) => new Mutex(client, path), queue: '', held: '' },
  {
    name: 'write lock',
    make: (client, path) => new ReadWriteLock(client, path).write,
    queue: '',
    held: '',
  },
  {
    name: 'semaphore of one permit',
    make: (client, path) => new Semaphore(client, path, { permits: 1 }),
    queue: '/locks',
    held: '/leases',
  },
  {
    name: 'non-reentrant mutex',
    make: (client, path) => new NonReentrantMutex(client, path),
    queue: '/locks',
    held: '/leases',
  },
];

describe.each(exclusive)('$name', ({ make, queue, held }) => {
  it('etcd 11360: excludes two lockers of one session', async () => {
    const path = server.path('etcd-11360');
    const client = await connect();
    const first = await make(client, path).acquire();
    await expect(make(client, path).acquire({ wait: 0 })).rejects.toThrow(LockBusyError);
    const second = observed(make(client, path).acquire());
    await client.sync(path);
    expect(second.settled).toBe(false);
    await first.release();
    const lease = await second.promise;
    expect(lease.fencingToken).toBeGreaterThan(first.fencingToken);
    await lease.release();
    await untilNothingLeft(server, client, path + held, path + queue);
  });

  it('CURATOR-604, 696: is not granted by a node of the previous session', async () => {
    const path = server.path('curator-604');
    const [holder, waiter] = await Promise.all([connect(), connect()]);
    const first = await make(holder, path).acquire();
    const waiting = make(waiter, path).acquire();
    await untilNodes(holder, path + held, 2);
    const before = (await waiter.session()).id;
    await expire(waiter, server);
    await expect.poll(async () => (await waiter.session()).id).not.toBe(before);
    await first.release();
    const lease = await waiting;
    const [node, ...others] = await nodesUnder(holder, path + held);
    expect(others).toEqual([]);
    const { ephemeralOwner } = (await holder.exists(`${path}${held}/${node}`))!;
    expect(ephemeralOwner).toBe((await waiter.session()).id);
    await lease.release();
    await untilNothingLeft(server, holder, path + held, path + queue);
  });

  it('etcd 11456: is not held by a session that ended during the grant', async () => {
    const path = server.path('etcd-11456');
    const [holder, waiter] = await Promise.all([connect(), connect()]);
    const first = await make(holder, path).acquire();
    const waiting = make(waiter, path).acquire();
    await untilNodes(holder, path + held, 2);
    await Promise.all([expire(waiter, server), first.release()]);
    const lease = await waiting;
    await waiter.sync(path);
    if (lease.held) {
      const [node, ...others] = await nodesUnder(holder, path + held);
      expect(others).toEqual([]);
      const { ephemeralOwner } = (await holder.exists(`${path}${held}/${node}`))!;
      expect(ephemeralOwner).toBe((await waiter.session()).id);
    } else {
      expect(lease.signal.reason).toBeInstanceOf(LeaseLostError);
    }
    await lease.release();
    await untilNothingLeft(server, holder, path + held, path + queue);
  });

  it('ShedLock: a late holder does not release the lock of the next holder', async () => {
    const path = server.path('shedlock');
    const [slow, other] = await Promise.all([connect(), connect()]);
    const late = await make(slow, path).acquire({ holdAtMost: 30 });
    const next = await make(other, path).acquire();
    expect(late.held).toBe(false);
    await late.release();
    expect(next.held).toBe(true);
    await expect(make(slow, path).acquire({ wait: 0 })).rejects.toThrow(LockBusyError);
    await next.release();
  });

  it('CURATOR-18, 462: a wait that is cancelled at any moment leaves no node', async () => {
    const path = server.path('curator-462');
    const [holder, other] = await Promise.all([connect(), connect()]);
    for (const taken of [false, true]) {
      const lease = taken ? await make(holder, path).acquire() : undefined;
      for (let turns = 0; turns < 25; turns++) {
        const controller = new AbortController();
        const waiting = make(other, path).acquire({ signal: controller.signal });
        const ended = waiting.then(
          (granted) => granted.release(),
          (error: unknown) => expect(error).toMatchObject({ code: 'CANCELLED' }),
        );
        for (let turn = 0; turn < turns; turn++) await new Promise(setImmediate);
        controller.abort();
        await ended;
      }
      await untilNodes(holder, path + held, taken ? 1 : 0);
      await lease?.release();
    }
    await untilNothingLeft(server, holder, path + held, path + queue);
  });

  it.runIf(serverHas.sessionResume)(
    'CURATOR-678, 486: a release during a connection loss leaves no node',
    async () => {
      const path = server.path('curator-678');
      await using link = await Link.to(server.port);
      const client = await connect({ connectString: link.connectString });
      const other = await connect();
      const lease = await make(client, path).acquire();
      await link.down();
      await untilState(client, 'SUSPENDED');
      await lease.release();
      expect(lease.held).toBe(false);
      await link.up();
      await (await make(other, path).acquire({ wait: 10_000 })).release();
      await client.close();
    },
  );

  it('kazoo 563: creates its directories again each time they are deleted', async () => {
    const path = server.path('kazoo-563');
    const [client, reaper] = await Promise.all([connect(), connect()]);
    const vanish = async () => {
      for (const directory of [`${path}/locks`, `${path}/leases`, path]) {
        await reaper.delete(directory).catch(() => undefined);
      }
    };
    for (let round = 0; round < 20; round++) {
      const visit = make(client, path).withLock(() => undefined);
      for (let turn = 0; turn < round % 5; turn++) await new Promise(setImmediate);
      await Promise.all([vanish(), visit]);
    }
  });

  it.runIf(serverHas.sessionResume)(
    'kazoo 732: an attempt that failed without a connection never becomes a holder',
    async () => {
      const path = server.path('kazoo-732');
      await using link = await Link.to(server.port);
      const client = await connect({
        connectString: link.connectString,
        retry: { type: 'fixed', delay: 20, maxRetries: 3 },
      });
      const other = await connect();
      await make(client, path).withLock(() => undefined);
      await link.down();
      await untilState(client, 'SUSPENDED');
      await expect(make(client, path).tryAcquire()).rejects.toMatchObject({ code: 'CONNECTION' });
      await link.up();
      await untilState(client, 'RECONNECTED');
      await (await make(other, path).acquire({ wait: 0 })).release();
      await client.close();
    },
  );

  it.runIf(serverHas.sessionResume)(
    'node-redlock 309: does not spin when the connection breaks during a request',
    async () => {
      const path = server.path('redlock-309');
      await using link = await Link.to(server.port);
      const client = await connect({ connectString: link.connectString, sessionTimeout: 20_000 });
      const pause = monitorEventLoopDelay({ resolution: 5 });
      pause.enable();
      for (let round = 0; round < 8; round++) {
        const lease = await make(client, path).acquire();
        const next = make(client, path).acquire();
        const cut = link.cut();
        void lease.release();
        await (await next).release();
        await cut;
        expect(lease.signal.aborted).toBe(false);
      }
      pause.disable();
      // A quarter of the session would be five seconds.
      expect(pause.max / 1e6).toBeLessThan(4500);
      await untilNothingLeft(server, client, path + held, path + queue);
      await client.close();
    },
  );

  it('a wait that timed out leaves no watch, on the server or in the client', async () => {
    const path = server.path('watch-left');
    const [holder, other] = await Promise.all([connect(), connect()]);
    const lease = await make(holder, path).acquire();
    await Promise.all([20, 25, 30].map((wait) => failureOf(make(other, path).acquire({ wait }))));
    const session = (await other.session()) as LiveSession;
    const { watches } = session as unknown as { watches: { size: number } };
    await expect.poll(() => watches.size).toBe(0);
    await lease.release();
    await untilNothingLeft(server, holder, path + held, path + queue);
  });
});

describe.each(exclusive.slice(0, 2))('$name', ({ make }) => {
  it('go-zookeeper: does not treat the absence of its own node as a grant', async () => {
    const path = server.path('own-node-gone');
    const clients = await Promise.all([connect(), connect(), connect()]);
    const [holder, waiter, behind] = clients.map((client) => make(client, path));
    const lease = await holder!.acquire();
    const waiting = observed(waiter!.acquire());
    await untilNodes(clients[0]!, path, 2);
    const [, second] = await holder!.participants();
    const next = behind!.acquire();
    await untilNodes(clients[0]!, path, 3);
    await clients[0]!.delete(second!.path);
    await lease.release();
    const theirs = await next;
    await clients[1]!.sync(path);
    expect(waiting.settled).toBe(false);
    await theirs.release();
    await (await waiting.promise).release();
    await untilNothingLeft(server, clients[0]!, path);
  });

  it('deletes its own node before it queues again, if a listing is too old to contain the node', async () => {
    const path = server.path('old-listing');
    const client = await connect();
    const session = (await client.session()) as LiveSession;
    const createAndList = session.createAndList.bind(session);
    await client.ensureContainers(path);
    const listing = vi
      .spyOn(session, 'createAndList')
      .mockImplementationOnce((parent, name, data, done) =>
        createAndList(parent, name, data, (error, created, listed) => {
          // As from a leader that was deposed, and does not know it yet.
          done(error, created, { ...listed!, children: [] });
        }),
      );
    const lease = await make(client, path).acquire({ wait: 10_000 });
    expect(listing).toHaveBeenCalled();
    expect(await nodesUnder(client, path)).toHaveLength(1);
    await lease.release();
    await untilNothingLeft(server, client, path);
  });

  it('CURATOR-107: leaves no watch on a node that was deleted before it was watched', async () => {
    const path = server.path('curator-107');
    const [holder, waiter] = await Promise.all([connect(), connect()]);
    const lease = await make(holder, path).acquire();
    const session = await waiter.session();
    const { get } = LiveSession.prototype;
    const watching = vi.spyOn(LiveSession.prototype, 'get').mockImplementation(async function (
      this: LiveSession,
      ...args: Parameters<typeof get>
    ) {
      if (this === session) await lease.release();
      return get.apply(this, args);
    } as typeof get);
    const next = await make(waiter, path).acquire();
    expect(watching).toHaveBeenCalled();
    watching.mockRestore();
    // The holder watches its own node a little later, until its lease ends.
    await next.release();
    await untilNothingLeft(server, holder, path);
  });
});

describe('mutex', () => {
  it('CURATOR-716: serves 1,000 waiters of one process', async () => {
    const path = server.path('curator-716');
    const client = await connect();
    let inside = 0;
    let served = 0;
    await Promise.all(
      Array.from({ length: 1000 }, (_, index) =>
        new Mutex(client, path).withLock(
          () => {
            expect(++inside).toBe(1);
            expect(served++).toBe(index);
            inside--;
          },
          { wait: 50_000 },
        ),
      ),
    );
    expect(served).toBe(1000);
    await untilNothingLeft(server, client, path);
  });

  it('CURATOR-716: serves 200 waiters of each of four clients', async () => {
    const path = server.path('curator-716-clients');
    const clients = await Promise.all(Array.from({ length: 4 }, () => connect()));
    let inside = 0;
    let served = 0;
    await Promise.all(
      clients.flatMap((client) =>
        Array.from({ length: 200 }, () =>
          new Mutex(client, path).withLock(
            () => {
              expect(++inside).toBe(1);
              served++;
              inside--;
            },
            { wait: 50_000 },
          ),
        ),
      ),
    );
    expect(served).toBe(800);
    await untilNothingLeft(server, clients[0]!, path);
  });
});

interface LostAnswer extends Pick<Recipe, 'name' | 'held' | 'queue'> {
  make: (client: ZkClient, path: string) => Pick<Lock, 'acquire'>;
  /** The node whose reply is lost. */
  marker: string;
  nodes: number;
}

const lostAnswers: LostAnswer[] = [
  { ...exclusive[0]!, marker: '-lock-', nodes: 1 },
  { ...exclusive[1]!, marker: '-__WRIT__', nodes: 1 },
  {
    name: 'semaphore whose caller wants three permits',
    make: (client, path) => {
      const semaphore = new Semaphore(client, path, { permits: 5 });
      return { acquire: (options) => semaphore.acquire({ ...options, count: 3 }) };
    },
    marker: '-lease-',
    queue: '/locks',
    held: '/leases',
    nodes: 3,
  },
];

describe.each(lostAnswers)('$name', ({ make, marker, queue, held, nodes }) => {
  /** Acquires, and drops all replies from the first create of its node on. */
  async function acquireUnanswered(link: Link, client: ZkClient, other: ZkClient, path: string) {
    await other.ensureContainers(path + held);
    const { create, createAndList } = LiveSession.prototype;
    let deafened = false;
    const first = vi.spyOn(LiveSession.prototype, 'createAndList').mockImplementation(function (
      this: LiveSession,
      ...args: Parameters<typeof createAndList>
    ) {
      deafened = true;
      void link.deafen().then(() => createAndList.apply(this, args));
    });
    const creating = vi.spyOn(LiveSession.prototype, 'create').mockImplementation(async function (
      this: LiveSession,
      ...args: Parameters<typeof create>
    ) {
      if (!deafened && args[0].includes(marker)) {
        deafened = true;
        await link.deafen();
      }
      return create.apply(this, args);
    });
    const controller = new AbortController();
    const acquiring = make(client, path).acquire({ signal: controller.signal });
    await untilNodes(other, path + held, nodes);
    first.mockRestore();
    creating.mockRestore();
    return { acquiring, controller };
  }

  it('CURATOR-45, 79: leaves no second node when the reply to a create is lost', async () => {
    const path = server.path('curator-45');
    await using link = await Link.to(server.port);
    const client = await connect({ connectString: link.connectString });
    const other = await connect();
    const { acquiring } = await acquireUnanswered(link, client, other, path);
    await link.cut();
    const lease = await acquiring;
    expect(await nodesUnder(other, path + held)).toHaveLength(nodes);
    await lease.release();
    await untilNothingLeft(server, other, path + queue, path + held);
    await client.close();
  });

  it.runIf(serverHas.sessionResume)(
    'CURATOR-190: leaves no node when the wait ends before a lost create is found',
    async () => {
      const path = server.path('curator-190');
      await using link = await Link.to(server.port);
      const client = await connect({ connectString: link.connectString });
      const other = await connect();
      const { acquiring, controller } = await acquireUnanswered(link, client, other, path);
      await link.down();
      controller.abort();
      await expect(acquiring).rejects.toMatchObject({ code: 'CANCELLED' });
      await link.up();
      await untilState(client, 'RECONNECTED');
      await untilNothingLeft(server, other, path + queue, path + held);
      await client.close();
    },
  );

  it.runIf(serverHas.sessionResume)(
    'leaves no node when the retries end after a lost reply',
    async () => {
      const path = server.path('retries-ran-out');
      await using link = await Link.to(server.port);
      const client = await connect({
        connectString: link.connectString,
        retry: { type: 'fixed', delay: 20, maxRetries: 3 },
      });
      const other = await connect();
      const { acquiring } = await acquireUnanswered(link, client, other, path);
      await link.down();
      await expect(acquiring).rejects.toMatchObject({ code: 'CONNECTION' });
      await link.up();
      await untilState(client, 'RECONNECTED');
      await untilNothingLeft(server, other, path + queue, path + held);
      await client.close();
    },
  );
});

const reentrant: [string, (client: ZkClient, path: string) => Lock][] = [
  ['mutex', (client, path) => new Mutex(client, path)],
  ['read lock', (client, path) => new ReadWriteLock(client, path).read],
  ['write lock', (client, path) => new ReadWriteLock(client, path).write],
];

describe.each(reentrant)('%s', (_name, make) => {
  it('CURATOR-206: rejects re-entry on a lost lock', async () => {
    const path = server.path('curator-206');
    const client = await connect();
    const lock = make(client, path);
    await lock.withLock(async (lease) => {
      await expire(client, server);
      await aborted(lease.signal);
      await expect(lock.withLock(() => 'inside')).rejects.toThrow(LeaseLostError);
      await expect(lock.acquire()).rejects.toThrow(LeaseLostError);
    });
    await lock.withLock(() => undefined);
  });
});

describe('read/write lock', () => {
  it('CURATOR-621: does not sort a downgraded reader behind a waiting writer', async () => {
    const path = server.path('curator-621');
    const [client, other] = await Promise.all([connect(), connect()]);
    const { read, write } = new ReadWriteLock(client, path);
    const writing = await write.enter();
    const waiting = observed(new ReadWriteLock(other, path).write.acquire());
    await untilNodes(client, path, 2);
    const reading = await writing.run(() => read.enter({ wait: 30_000 }));
    await writing.release();
    await untilNodes(client, path, 2);
    await other.sync(path);
    expect(reading.lease.held).toBe(true);
    expect(waiting.settled).toBe(false);
    const states = (await read.participants()).map(({ state, mode }) => `${state} ${mode}`);
    expect(states).toEqual(['holding read', 'waiting write']);
    await reading.release();
    await (await waiting.promise).release();
    await untilNothingLeft(server, client, path);
  });
});

describe('semaphore', () => {
  it('CURATOR-75: raising the permits notifies every waiter that can be granted', async () => {
    const path = server.path('curator-75');
    const [one, two, operator] = await Promise.all([connect(), connect(), connect()]);
    const count = (client: ZkClient) => new SharedCount(client, `${path}-count`);
    await count(operator).set(1);
    const held = await new Semaphore(one, path, { permits: count(one) }).acquire();
    const waiting = [one, two, two].map((client) =>
      new Semaphore(client, path, { permits: count(client) }).acquire(),
    );
    await untilNodes(one, `${path}/locks`, 3);
    await untilNodes(one, `${path}/leases`, 2);
    await count(operator).set(4);
    const leases = await Promise.all(waiting);
    expect(held.held).toBe(true);
    await Promise.all([held, ...leases].map((lease) => lease.release()));
  });

  it('two clients that want several permits do not deadlock', async () => {
    const path = server.path('one-by-one');
    const clients = await Promise.all([connect(), connect()]);
    let taken = 0;
    await Promise.all(
      clients.flatMap((client) =>
        Array.from({ length: 15 }, () =>
          new Semaphore(client, path, { permits: 3 }).withLock(() => void taken++, {
            count: 2,
            wait: 15_000,
          }),
        ),
      ),
    );
    expect(taken).toBe(30);
    await untilNothingLeft(server, clients[0]!, `${path}/locks`, `${path}/leases`);
  });
});

describe('multi-lock', () => {
  it('all locks share one timeout', async () => {
    const base = server.path('full-timeout');
    const all = ['a', 'b', 'c'].map((name) => `${base}/${name}`);
    const [client, other] = await Promise.all([connect(), connect()]);
    const held = await Promise.all(all.map((path) => new Mutex(other, path).acquire()));
    const start = performance.now();
    const multi = new MultiLock(all.map((path) => new Mutex(client, path)));
    const waiting = failureOf(multi.acquire({ wait: 3_000 }));
    await untilNodes(client, all[0]!, 2);
    await delay(1_500);
    await held[0]!.release();
    await untilNodes(client, all[1]!, 2);
    await held[1]!.release();
    expect(await waiting).toBeInstanceOf(LockTimeoutError);
    const elapsed = performance.now() - start;
    expect(elapsed).toBeGreaterThanOrEqual(2_999);
    // With a timeout of its own, the third lock would be waited for until 4,500 ms.
    expect(elapsed).toBeLessThan(4_400);
    await held[2]!.release();
    await untilNothingLeft(server, client, ...all);
  });
});

describe('kazoo 730: exhausted sequence numbers', () => {
  const LAST = 2 ** 31 - 1;
  const locks: [string, (client: ZkClient, path: string) => Lock, string][] = [
    ['mutex', (client, path) => new Mutex(client, path), ''],
    ['read lock', (client, path) => new ReadWriteLock(client, path).read, ''],
    ['write lock', (client, path) => new ReadWriteLock(client, path).write, ''],
    ['semaphore', (client, path) => new Semaphore(client, path, { permits: 1 }), '/locks'],
  ];

  it.each(locks)('is an error for a %s that gets the last number', async (_name, make, queue) => {
    const path = server.path('kazoo-730');
    const client = await connect();
    const { create } = LiveSession.prototype;
    // Creates the node that the server would create after 2,147,483,647 creates.
    const creating = vi.spyOn(LiveSession.prototype, 'create').mockImplementation(function (
      this: LiveSession,
      name,
      data,
      options,
    ) {
      const sequential = options?.mode === 'ephemeral-sequential';
      return sequential
        ? create.call(this, `${name}${LAST}`, data, { mode: 'ephemeral' })
        : create.call(this, name, data, options);
    });
    const error = await failureOf(make(client, path).acquire());
    creating.mockRestore();
    expect(error).toBeInstanceOf(SequenceExhaustedError);
    expect(error).toMatchObject({ code: 'SEQUENCE_EXHAUSTED' });
    expect((error as Error).message).toContain(path);
    await untilNothingLeft(server, client, path + queue);
    await (await make(client, path).acquire({ wait: 0 })).release();
  });

  it('keeps the order when only another node has the last number', async () => {
    const path = server.path('kazoo-730-other');
    const client = await connect();
    await client.ensureContainers(path);
    const theirs = `${path}/_c_6f9619ff-8b86-4011-b42d-00cf4fc964ff-lock-${LAST}`;
    await client.create(theirs, '', { mode: 'ephemeral' });
    await (await new Mutex(client, path).acquire({ wait: 0 })).release();
    await client.delete(theirs);
  });

  it.runIf(process.env.ZK_SERVER === 'embedded')(
    'causes a warning from half of the numbers on, an error at the last one, and ends with a new parent',
    async () => {
      const options = resolveOptions({});
      const path = '/used-up';
      let thread = await ServerThread.start({ options, saved: undefined });
      const connected = async (): Promise<ZkClient> => {
        const client = new ZkClient({ connectString: `127.0.0.1:${thread.port}` });
        await client.connect();
        return client;
      };
      /** Returns the number of creates under the path, as the server counts them. */
      const restart = async (created: number) => {
        const saved = await thread.stop();
        saved.nodes.get(path)!.created = created;
        thread = await ServerThread.start({ options, saved });
        return connected();
      };
      let client = await connected();
      // Not a container, because it must be empty for a while.
      await client.create(path);
      await client.close();

      client = await restart(2 ** 30 - 1);
      await new Mutex(client, path).withLock(() => undefined);
      const warning = once(process, 'warning');
      await new Mutex(client, path).withLock(() => undefined);
      const [{ code, message }] = (await warning) as [Error & { code: string }];
      expect(code).toBe('ZK_SEQUENCE_HALF_USED');
      expect(message).toContain(path);
      await client.close();

      client = await restart(LAST - 1);
      await new Mutex(client, path).withLock(() => undefined);
      for (let tries = 0; tries < 3; tries++) {
        await expect(new Mutex(client, path).acquire()).rejects.toThrow(SequenceExhaustedError);
      }
      await untilNodes(client, path, 0);
      await client.delete(path);
      await new Mutex(client, path).withLock(() => undefined);
      await client.close();
      await thread.stop();
    },
  );
});
