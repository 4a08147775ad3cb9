import { describe, expect, vi } from 'vitest';
import {
  LeaseLostError,
  type Lock,
  LockBusyError,
  LockTimeoutError,
  MultiLock,
  Mutex,
  Semaphore,
  SequenceExhaustedError,
  type ZkClient,
} from 'nestjs-zookeeper/recipes';
import { Session } from '../../../lib/client/session.js';
import { aborted, expire, untilState, useClients, useLinks } from '../../support/clients.js';
import {
  failureOf,
  nodesUnder,
  untilNothingLeft,
  observed,
  untilNodes,
} from '../../support/recipe-nodes.js';
import { serverHas, type TestLink, useServer } from '../../support/servers.js';
import { beforeEach, currentWorld, it, MOMENTS } from '../../support/virtual-time.js';

// Bugs of other lock libraries, each with the number of its issue, tested on each algorithm that could have the bug.
// Bugs that only a rare order of events shows are mutants of the simulator (scripts/simulation/mutants).

const server = useServer();
const newLink = useLinks(server);
const connect = useClients(server);

let path: string;
let client: ZkClient;
let other: ZkClient;
beforeEach(async () => {
  path = server.path('known-bugs-locks');
  [client, other] = await Promise.all([connect(), connect()]);
});

interface Algorithm {
  name: string;
  make: (client: ZkClient, path: string) => Lock;
  /** The directories of the waiters' and the holders' nodes. */
  queue: string;
  held: string;
}

const algorithms: Algorithm[] = [
  { name: 'mutex', make: (client, path) => new Mutex(client, path), queue: '', held: '' },
  {
    name: 'semaphore of one permit',
    make: (client, path) => new Semaphore(client, path, { permits: 1 }),
    queue: '/locks',
    held: '/leases',
  },
];

describe.each(algorithms)('$name', ({ make, queue, held }) => {
  it('CURATOR-604, 696: is not granted by a node of the previous session', async () => {
    const first = await make(client, path).acquire();
    const waiting = make(other, path).acquire();
    await untilNodes(client, path + held, 2);
    const before = (await other.session()).id;
    await expire(other, server);
    await expect.poll(async () => (await other.session()).id).not.toBe(before);
    await first.release();
    const lease = await waiting;
    const [node, ...others] = await nodesUnder(client, path + held);
    expect(others).toEqual([]);
    const { ephemeralOwner } = (await client.exists(`${path}${held}/${node}`))!;
    expect(ephemeralOwner).toBe((await other.session()).id);
    await lease.release();
    await untilNothingLeft(server, client, path + held, path + queue);
  });

  it('ShedLock: a late holder does not release the lock of the next holder', async () => {
    const late = await make(client, path).acquire({ holdAtMost: 30 });
    const next = await make(other, path).acquire();
    expect(late.held).toBe(false);
    await late.release();
    expect(next.held).toBe(true);
    await expect(make(client, path).acquire({ wait: 0 })).rejects.toThrow(LockBusyError);
    await next.release();
  });

  it('CURATOR-18, 462: a wait that is cancelled at any moment leaves no node', async () => {
    for (const taken of [false, true]) {
      const lease = taken ? await make(client, path).acquire() : undefined;
      const outcomes = new Set<unknown>();
      for (const moment of MOMENTS) {
        const controller = new AbortController();
        const ended = make(other, path)
          .acquire({ signal: controller.signal })
          .then(
            (granted) => granted.release().then(() => 'GRANTED'),
            ({ code }) => code,
          );
        await currentWorld().sleep(moment);
        controller.abort();
        outcomes.add(await ended);
      }
      expect(outcomes).toEqual(new Set(taken ? ['CANCELLED'] : ['CANCELLED', 'GRANTED']));
      await untilNodes(client, path + held, taken ? 1 : 0);
      await lease?.release();
    }
    await untilNothingLeft(server, client, path + held, path + queue);
  });

  // The server never deletes a container that never had a child.
  it.runIf(serverHas.containers)(
    'a wait for a new key that ends at any moment leaves no directory',
    async () => {
      for (const moment of MOMENTS) {
        const controller = new AbortController();
        const ended = make(other, `${path}/cancelled-${moment}`)
          .acquire({ signal: controller.signal })
          .then((granted) => granted.release());
        await currentWorld().sleep(moment);
        controller.abort();
        await ended.catch(() => {});
      }
      await currentWorld().sleep(5 * 60_000);
      expect(await client.exists(path)).toBeUndefined();
    },
  );

  it.runIf(serverHas.containers)(
    'a wait for a new key that ends without a connection leaves no directory',
    async () => {
      const link = await newLink();
      const { connectString } = link;
      const cutOff = await connect({ connectString, retry: { type: 'fixed', delay: 20 } });
      for (const moment of MOMENTS) {
        const controller = new AbortController();
        const ended = make(cutOff, `${path}/cut-off-${moment}`)
          .acquire({ signal: controller.signal })
          .then((granted) => granted.release());
        await currentWorld().sleep(moment);
        await link.down();
        controller.abort();
        await ended.catch(() => {});
        await link.up();
        await untilState(cutOff, 'RECONNECTED');
      }
      await currentWorld().sleep(5 * 60_000);
      expect(await client.exists(path)).toBeUndefined();
    },
  );

  it.runIf(serverHas.sessionResume)(
    'CURATOR-678, 486, kazoo 732: a release or a try without a connection leaves no node',
    async () => {
      const link = await newLink();
      const client = await connect({
        connectString: link.connectString,
        retry: { type: 'fixed', delay: 20, maxRetries: 3 },
      });
      const lease = await make(client, path).acquire();
      await link.down();
      await untilState(client, 'SUSPENDED');
      await lease.release();
      expect(lease.held).toBe(false);
      await expect(make(client, path).tryAcquire()).rejects.toMatchObject({ code: 'CONNECTION' });
      await link.up();
      await untilState(client, 'RECONNECTED');
      await (await make(other, path).acquire({ wait: 1000 })).release();
      await untilNothingLeft(server, other, path + held, path + queue);
    },
  );

  it('kazoo 563: creates its directories again each time they are deleted', async () => {
    const vanish = () => {
      const directories = [`${path}/locks`, `${path}/leases`, path];
      // A directory may not exist yet, or have a znode.
      return Promise.allSettled(directories.map((directory) => other.delete(directory)));
    };
    let deleted = 0;
    for (const moment of MOMENTS) {
      await vanish();
      const visit = make(client, path).withLock(() => 'visited');
      await currentWorld().sleep(moment);
      deleted += (await vanish()).filter(({ status }) => status === 'fulfilled').length;
      expect(await visit).toBe('visited');
    }
    expect(deleted).toBeGreaterThan(0);
  });

  it.runIf(serverHas.sessionResume)(
    'node-redlock 309: does not spin when the connection breaks during a request',
    async () => {
      const link = await newLink();
      const { connectString } = link;
      const cutOff = await connect({ connectString, sessionTimeout: 20_000 });
      for (let round = 0; round < 8; round++) {
        const lease = await make(cutOff, path).acquire();
        const next = make(cutOff, path).acquire();
        const cut = link.cut();
        void lease.release();
        // Virtual time does not pass while code spins, and the simulation ends with an error.
        await (await next).release();
        await cut;
        expect(lease.signal.aborted).toBe(false);
      }
      await untilNothingLeft(server, other, path + held, path + queue);
    },
  );

  it('a wait that timed out leaves no watch, on the server or in the client', async () => {
    const [holder, other] = await Promise.all([connect(), connect()]);
    const lease = await make(holder, path).acquire();
    await Promise.all([20, 25, 30].map((wait) => failureOf(make(other, path).acquire({ wait }))));
    const { watches } = await other.session();
    await expect.poll(() => watches.size).toBe(0);
    await lease.release();
    await untilNothingLeft(server, holder, path + held, path + queue);
  });
});

describe('mutex', () => {
  it.each([
    [1, 1000],
    [4, 200],
  ])('CURATOR-716: %i clients serve all of their %i waiters, in order', async (count, waiters) => {
    const clients = await Promise.all(Array.from({ length: count }, () => connect()));
    let inside = 0;
    const served = clients.map(() => 0);
    const visit = (each: ZkClient, number: number, index: number) =>
      new Mutex(each, path).withLock(
        async () => {
          expect(++inside).toBe(1);
          expect(served[number]!++).toBe(index);
          await new Promise(setImmediate);
          inside--;
        },
        { wait: 50_000 },
      );
    await Promise.all(
      clients.flatMap((each, number) =>
        Array.from({ length: waiters }, (_, index) => visit(each, number, index)),
      ),
    );
    expect(served).toEqual(clients.map(() => waiters));
    await untilNothingLeft(server, client, path);
  });

  it('go-zookeeper: does not treat the absence of its own node as a grant', async () => {
    const clients = await Promise.all([connect(), connect(), connect()]);
    const [holder, waiter, behind] = clients.map((client) => new Mutex(client, path));
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
    const session = (await client.session()) as Session;
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
    const lease = await new Mutex(client, path).acquire({ wait: 10_000 });
    expect(listing).toHaveBeenCalled();
    expect(await nodesUnder(client, path)).toHaveLength(1);
    await lease.release();
    await untilNothingLeft(server, client, path);
  });

  it('pauses between its creates if the listings never contain its node', async () => {
    await client.ensureContainers(path);
    const session = (await client.session()) as Session;
    const { create, children, createAndList } = session;
    let creates = 0;
    vi.spyOn(session, 'create').mockImplementation((...args) => {
      creates++;
      return create.apply(session, args);
    });
    vi.spyOn(session, 'children').mockImplementation((async (
      ...args: Parameters<typeof children>
    ) => ({
      ...(await children.apply(session, args)),
      children: [] as string[],
    })) as typeof children);
    vi.spyOn(session, 'createAndList').mockImplementation((parent, name, data, done) =>
      createAndList.call(session, parent, name, data, (error, created, listed) =>
        done(error, created, { ...listed!, children: [] }),
      ),
    );
    const acquiring = new Mutex(client, path).acquire({ wait: 3000 });
    await expect(acquiring).rejects.toBeInstanceOf(LockTimeoutError);
    expect(creates).toBeGreaterThanOrEqual(5);
    expect(creates).toBeLessThanOrEqual(20);
    vi.restoreAllMocks();
    await untilNothingLeft(server, client, path);
  });

  it('CURATOR-107: leaves no watch on a node that was deleted before it was watched', async () => {
    const lease = await new Mutex(client, path).acquire();
    const session = (await other.session()) as Session;
    const get = session.get.bind(session);
    const watching = vi.spyOn(session, 'get').mockImplementation((async (
      ...args: Parameters<typeof get>
    ) => {
      await lease.release();
      return get(...args);
    }) as typeof get);
    const next = await new Mutex(other, path).acquire();
    expect(watching).toHaveBeenCalled();
    // The holder watches its own node a little later, until its lease ends.
    await next.release();
    await untilNothingLeft(server, client, path);
  });

  it('CURATOR-206: rejects re-entry on a lost lock', async () => {
    const lock = new Mutex(client, server.path('curator-206'));
    await lock.withLock(async (lease) => {
      await expire(client, server);
      await aborted(lease.signal);
      await expect(lock.withLock(() => 'inside')).rejects.toThrow(LeaseLostError);
      await expect(lock.acquire()).rejects.toThrow(LeaseLostError);
    });
    await lock.withLock(() => undefined);
  });
});

describe.each([
  { ...algorithms[0]!, marker: '-lock-', nodes: 1 },
  {
    ...algorithms[1]!,
    name: 'semaphore whose caller wants three permits',
    make: (client: ZkClient, path: string) => {
      const semaphore = new Semaphore(client, path, { permits: 5 });
      return {
        acquire: ({ signal }: { signal: AbortSignal }) => semaphore.acquire({ signal, count: 3 }),
      };
    },
    marker: '-lease-',
    nodes: 3,
  },
])('$name', ({ make, marker, queue, held, nodes }) => {
  /** Acquires, and drops all replies from the first create of its node on. */
  async function acquireUnanswered(
    link: TestLink,
    client: ZkClient,
    other: ZkClient,
    path: string,
  ) {
    await other.ensureContainers(path + held);
    const { create, createAndList } = Session.prototype;
    let deafened = false;
    const first = vi.spyOn(Session.prototype, 'createAndList').mockImplementation(function (
      this: Session,
      ...args: Parameters<typeof createAndList>
    ) {
      deafened = true;
      void link.holdReplies().then(() => createAndList.apply(this, args));
    });
    const creating = vi.spyOn(Session.prototype, 'create').mockImplementation(async function (
      this: Session,
      ...args: Parameters<typeof create>
    ) {
      if (!deafened && args[0].includes(marker)) {
        deafened = true;
        await link.holdReplies();
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
    const link = await newLink();
    const client = await connect({ connectString: link.connectString });
    const { acquiring } = await acquireUnanswered(link, client, other, path);
    await link.cut();
    const lease = await acquiring;
    expect(await nodesUnder(other, path + held)).toHaveLength(nodes);
    await lease.release();
    await untilNothingLeft(server, other, path + queue, path + held);
  });

  it('leaves no second node when the search after a lost reply fails before it is sent', async () => {
    const link = await newLink();
    const client = await connect({ connectString: link.connectString });
    const { acquiring } = await acquireUnanswered(link, client, other, path);
    const { children } = Session.prototype;
    const search = vi.spyOn(Session.prototype, 'children').mockImplementationOnce(async function (
      this: Session,
      at: string,
    ) {
      await Promise.all([untilState(client, 'SUSPENDED'), link.cut()]);
      // Without a connection, it is not sent.
      return children.call(this, at);
    } as typeof children);
    await link.cut();
    const lease = await acquiring;
    search.mockRestore();
    expect(await nodesUnder(other, path + held)).toHaveLength(nodes);
    await lease.release();
    await untilNothingLeft(server, other, path + queue, path + held);
  });

  it.runIf(serverHas.sessionResume).each([
    ['CURATOR-190: when the wait ends before a lost create is found', 'CANCELLED'],
    ['when the retries end after a lost reply', 'CONNECTION'],
  ])('leaves no node: %s', async (_when, code) => {
    const link = await newLink();
    const client = await connect({
      connectString: link.connectString,
      retry: { type: 'fixed', delay: 20, maxRetries: 3 },
    });
    const { acquiring, controller } = await acquireUnanswered(link, client, other, path);
    await link.down();
    if (code === 'CANCELLED') controller.abort();
    await expect(acquiring).rejects.toMatchObject({ code });
    await link.up();
    await untilState(client, 'RECONNECTED');
    await untilNothingLeft(server, other, path + queue, path + held);
  });
});

describe('multi-lock', () => {
  it('all locks share one timeout', async () => {
    const base = server.path('full-timeout');
    const all = ['a', 'b', 'c'].map((name) => `${base}/${name}`);
    const [first, second] = await Promise.all(all.map((path) => new Mutex(other, path).acquire()));
    const start = performance.now();
    const multi = new MultiLock(all.map((path) => new Mutex(client, path)));
    const waiting = failureOf(multi.acquire({ wait: 3_000 }));
    await new Promise((resolve) => setTimeout(resolve, 1_500));
    await first!.release();
    await untilNodes(client, all[1]!, 2);
    await second!.release();
    expect(await waiting).toBeInstanceOf(LockTimeoutError);
    expect(Math.round((performance.now() - start) / 10)).toBe(300);
  });
});

describe('kazoo 730: exhausted sequence numbers', () => {
  const LAST = 2 ** 31 - 1;

  it.each(algorithms)(
    'are an error for a $name that gets the last number',
    async ({ make, queue }) => {
      const { create } = Session.prototype;
      // Creates the node that the server would create after 2,147,483,647 creates.
      const creating = vi.spyOn(Session.prototype, 'create').mockImplementation(function (
        this: Session,
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
    },
  );

  it('keep the order when only another node has the last number', async () => {
    await client.ensureContainers(path);
    const theirs = `${path}/_c_6f9619ff-8b86-4011-b42d-00cf4fc964ff-lock-${LAST}`;
    await client.create(theirs, '', { mode: 'ephemeral' });
    const lease = await new Mutex(client, path).acquire({ wait: 0 });
    expect(await nodesUnder(client, path)).toHaveLength(2);
    await lease.release();
    await client.delete(theirs);
  });
});

it('a listener for the end of one lease sees the end of the others of its session', async () => {
  const first = await new Mutex(client, `${path}/first`).acquire();
  const second = await new Mutex(client, `${path}/second`).acquire();
  let atOnce: unknown;
  first.signal.addEventListener('abort', () => (atOnce = second.signal.reason));
  await expire(client, server);
  await aborted(second.signal);
  expect(atOnce).toBeInstanceOf(LeaseLostError);
});
