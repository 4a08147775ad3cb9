import { setTimeout as pause } from 'node:timers/promises';
import { describe, expect, onTestFinished, vi } from 'vitest';
import {
  LockRevokedError,
  LockTimeoutError,
  MultiLock,
  Mutex,
  onDeadlock,
  ReadWriteLock,
  revoke,
  runDetached,
  Semaphore,
  WaitCancelledError,
  type ZkClient,
} from 'nestjs-zookeeper/recipes';
import { aborted, useClients } from '../../../support/clients.js';
import { collectDeadlocks, edges, runNested } from '../../../support/deadlocks.js';
import { Gate } from '../../../support/gate.js';
import { nodesUnder, untilNothingLeft } from '../../../support/recipe-nodes.js';
import { useServer } from '../../../support/servers.js';
import { it } from '../../../support/virtual-time.js';

const server = useServer();
const connect = useClients(server);

/** Locks of one client, by key. */
function locksOf(client: ZkClient, root: string) {
  const at = (key: string) => [client, `${root}/${key}`, { key }] as const;
  return {
    mutex: (key: string) => new Mutex(...at(key)),
    read: (key: string) => new ReadWriteLock(...at(key)).read,
    write: (key: string) => new ReadWriteLock(...at(key)).write,
  };
}

/**
 * The holder of `a` starts a branch that waits for `b`, and holds `a` for two seconds. The holder of `b` waits for `a`.
 *
 * @param start how it starts the branch
 */
function oneBranch(client: ZkClient, root: string, start: (branch: () => void) => void) {
  const { mutex } = locksOf(client, root);
  const [branch, both] = [new Gate(), new Gate()];
  const one = mutex('a').withLock(async () => {
    await both.opened;
    start(() => void mutex('b').withLock(() => branch.open()));
    await pause(2000);
  });
  const two = mutex('b').withLock(async () => {
    both.open();
    await mutex('a').withLock(() => {});
  });
  return Promise.all([one, two, branch.opened]);
}

/** Matches the details of a znode with the claim of one lock. */
const claiming: unknown = expect.objectContaining({ holds: [expect.anything()] });

/** Reads the details in the znodes of a queue. */
async function detailsUnder(client: ZkClient, path: string): Promise<object[]> {
  const { children } = await client.children(path);
  const read = await Promise.all(children.map((name) => client.get(`${path}/${name}`)));
  return read.map(({ data }) => JSON.parse(data.toString()) as object);
}

/** Ends the deadlock by ending the sessions of its leases. */
async function broken(clients: ZkClient[], planted: Promise<unknown>[]): Promise<void> {
  const settled = Promise.allSettled(planted);
  await Promise.all(clients.map((client) => client.close()));
  await settled;
}

describe.each(['handover', 'strict'] as const)('with fairness %s, a deadlock', (fairness) => {
  it.each([1, 2])('of %i clients is reported once, with keys and holders', async (count) => {
    const root = server.path('once');
    const clients = await Promise.all(Array.from({ length: count }, () => connect()));
    const one = locksOf(clients[0]!, root);
    const two = locksOf(clients.at(-1)!, root);
    const reports = collectDeadlocks();
    const elsewhere = vi.fn();
    onTestFinished(onDeadlock(elsewhere, { client: await connect() }));
    const planted = runNested(
      { locks: [one.mutex('a'), one.mutex('b')], options: { fairness } },
      { locks: [two.mutex('b'), two.mutex('a')], options: { fairness } },
    );
    await expect.poll(() => reports).toHaveLength(1);
    expect(edges(reports[0]!)).toEqual(['a -> b', 'b -> a']);
    for (const member of reports[0]!.cycle) {
      expect(member).toMatchObject({ here: true, holder: { pid: process.pid } });
      expect(member.endsAt).toBeUndefined();
    }
    expect(reports[0]!.message).toContain('"a" is held by this process');
    // One report, however often the wait is checked.
    await pause(1000);
    expect(reports).toHaveLength(1);
    expect(elsewhere).not.toHaveBeenCalled();
    await broken(clients, planted);
  });
});

describe('a deadlock', () => {
  it('through a call chain that waits inside its process is reported with every step', async () => {
    const root = server.path('mixed');
    const clients = await Promise.all([connect(), connect()]);
    const [one, two] = clients.map((client) => locksOf(client, root));
    const reports = collectDeadlocks();
    // The second waits for b behind the first, which is of the same client: no znode of it waits.
    const planted = runNested(
      { locks: [one!.mutex('b'), one!.mutex('c')] },
      { locks: [one!.mutex('a'), one!.mutex('b')] },
      { locks: [two!.mutex('c'), two!.mutex('a')] },
    );
    await expect.poll(() => reports.length).toBeGreaterThan(0);
    for (const deadlock of reports) expect(edges(deadlock)).toEqual(['a -> b', 'b -> c', 'c -> a']);
    await broken(clients, planted);
  });

  it('of a reader behind a writer that waits for another reader is reported', async () => {
    const root = server.path('readers');
    const clients = await Promise.all([connect(), connect(), connect()]);
    const [one, two, three] = clients.map((client) => locksOf(client, root));
    const reports = collectDeadlocks();
    const reading = new Gate();
    const crossing = new Gate();
    const first = one!.read('a').withLock(async () => {
      reading.open();
      await crossing.opened;
      await one!.mutex('b').withLock(() => {});
    });
    await reading.opened;
    // It holds nothing, so it is in no cycle, but the reader behind it waits for it.
    const writer = three!.write('a').withLock(() => {});
    await expect.poll(async () => (await two!.read('a').participants()).length).toBe(2);
    const second = two!.mutex('b').withLock(() => {
      crossing.open();
      return two!.read('a').withLock(() => {});
    });
    await expect.poll(() => reports.length).toBeGreaterThan(0);
    expect(edges(reports[0]!)).toEqual(['a -> b', 'b -> a']);
    await broken(clients, [first, writer, second]);
  });

  it('of a multi-lock with nested locks is reported, with the locks that it has so far', async () => {
    const root = server.path('multi');
    const clients = await Promise.all([connect(), connect()]);
    const [one, two] = clients.map((client) => locksOf(client, root));
    const reports = collectDeadlocks();
    const aAndB = new MultiLock([one!.mutex('a'), one!.mutex('b')]);
    const holding = new Gate();
    const nested = two!.mutex('b').withLock(async () => {
      await holding.opened;
      await two!.mutex('a').withLock(() => {});
    });
    await expect.poll(async () => (await two!.mutex('b').participants()).length).toBe(1);
    const multi = aAndB.acquire();
    await expect.poll(async () => (await two!.mutex('b').participants()).length).toBe(2);
    holding.open();
    await expect.poll(() => reports.length).toBeGreaterThan(0);
    expect(edges(reports[0]!)).toEqual(['a -> b', 'b -> a']);
    await broken(clients, [nested, multi]);
  });

  it('of a reader that queues behind a shared node belongs to that reader', async () => {
    const root = server.path('readers');
    const clients = await Promise.all([connect(), connect()]);
    const [one, two] = clients.map((client) => locksOf(client, root));
    const reports = collectDeadlocks();
    const held = await one!.read('l').acquire();
    const go = new Gate();
    const asked = [
      one!.mutex('x').withLock(async () => {
        await go.opened;
        await one!.read('l').withLock(() => {});
      }),
      two!.write('l').withLock(() => two!.mutex('x').withLock(() => {})),
    ];
    await expect.poll(() => nodesUnder(clients[0], `${root}/l`)).toHaveLength(2);
    await expect.poll(() => nodesUnder(clients[0], `${root}/x`)).toHaveLength(1);
    // Its chain holds nothing, and both readers request the lock before it is known that a writer
    // waits.
    asked.push(one!.read('l').withLock(() => {}));
    go.open();
    await Promise.resolve();
    await held.release();
    await expect.poll(() => reports.length).toBeGreaterThan(0);
    expect(edges(reports[0]!)).toEqual(['l -> x', 'x -> l']);
    await broken(clients, asked);
  });

  it('with a wait that times out contains the time', async () => {
    const root = server.path('timed');
    const clients = await Promise.all([connect(), connect()]);
    const [one, two] = clients.map((client) => locksOf(client, root));
    const reports = collectDeadlocks();
    const before = Date.now();
    const planted = runNested(
      { locks: [one!.mutex('a'), one!.mutex('b')], options: { wait: 4_000 } },
      { locks: [two!.mutex('b'), two!.mutex('a')] },
    );
    const results = await Promise.allSettled(planted);
    expect(results[0]).toMatchObject({ reason: expect.any(LockTimeoutError) });
    expect(results[1]).toMatchObject({ value: 'done' });
    expect(reports.length).toBeGreaterThan(0);
    const [timed] = reports[0]!.cycle.filter(({ endsAt }) => endsAt !== undefined);
    expect(timed).toMatchObject({ key: 'a', waitsFor: 'b' });
    expect(timed!.endsAt!.getTime()).toBeGreaterThan(before + 3900);
    expect(timed!.endsAt!.getTime()).toBeLessThan(before + 14_000);
    expect(reports[0]!.message).toContain(' until ');
  });

  it('of which a holder does not await its wait looks the same, and the message says so', async () => {
    const root = server.path('unawaited');
    const client = await connect();
    const reports = collectDeadlocks();
    await oneBranch(client, root, (branch) => branch());
    expect(reports[0]!.message).toContain(
      'If a holder does not await its wait, this is no deadlock: start such a branch with runDetached()',
    );
  });

  it('of one call chain that uses two connections is reported', async () => {
    const root = server.path('self');
    const clients = await Promise.all([connect(), connect()]);
    const [one, two] = clients.map((client) => locksOf(client, root));
    const reports = collectDeadlocks();
    const asking = one!.mutex('a').withLock(() => two!.mutex('a').withLock(() => {}));
    await expect.poll(() => reports).toHaveLength(1);
    expect(edges(reports[0]!)).toEqual(['a -> a']);
    await broken(clients, [asking]);
  });
});

describe('no deadlock is reported', () => {
  it('for a branch that its caller has detached', async () => {
    const root = server.path('detached');
    const client = await connect();
    const reports = collectDeadlocks();
    await oneBranch(client, root, runDetached);
    expect(reports).toEqual([]);
  });

  it('for leases that no call chain holds', async () => {
    const root = server.path('leases');
    const clients = await Promise.all([connect(), connect()]);
    const [one, two] = clients.map((client) => locksOf(client, root));
    const reports = collectDeadlocks();
    const leases = await Promise.all([one!.mutex('a').acquire(), two!.mutex('b').acquire()]);
    const waiting = [one!.mutex('b').acquire(), two!.mutex('a').acquire()];
    await pause(1500);
    expect(reports).toEqual([]);
    for (const lease of leases) await lease.release();
    for (const lease of await Promise.all(waiting)) await lease.release();
  });

  it('for a permit, which others may release', async () => {
    const root = server.path('permits');
    const clients = await Promise.all([connect(), connect()]);
    const reports = collectDeadlocks();
    const [one, two] = clients.map((client) => new Semaphore(client, `${root}/s`, { permits: 2 }));
    const a = new Mutex(clients[0], `${root}/a`);
    const spare = await one!.acquire();
    const inside = new Gate();
    const chains = [
      one!.withLock(async () => {
        inside.open();
        await expect.poll(async () => (await a.participants()).length).toBe(1);
        await a.withLock(() => {});
      }),
      new Mutex(clients[1], `${root}/a`).withLock(async () => {
        await inside.opened;
        await two!.withLock(() => {});
      }),
    ];
    await pause(1500);
    expect(reports).toEqual([]);
    await spare.release();
    await Promise.all(chains);
  });

  it('for a lingering lock, which is released on demand', async () => {
    const root = server.path('linger');
    const clients = await Promise.all([connect(), connect()]);
    const [one, two] = clients.map((client) => locksOf(client, root));
    const reports = collectDeadlocks();
    const linger = { linger: 3_600_000 };
    await one!.mutex('a').withLock(() => {}, linger);
    await two!.mutex('b').withLock(() => {}, linger);
    await Promise.all(
      runNested(
        { locks: [one!.mutex('c'), one!.mutex('b')], options: linger },
        { locks: [two!.mutex('d'), two!.mutex('a')], options: linger },
      ),
    );
    expect(reports).toEqual([]);
  });
});

describe('the details of a waiter in its node', () => {
  it('are removed when the lock is granted and when it is handed over', async () => {
    const root = server.path('said');
    const clients = await Promise.all([connect(), connect()]);
    const [one, two] = clients.map((client) => locksOf(client, root));
    const said = () => detailsUnder(clients[0], `${root}/b`);
    const lease = await one!.mutex('b').acquire();
    const granted = new Gate();
    const end = new Gate();
    const chain = two!.mutex('a').withLock(() =>
      two!.mutex('b').withLock(async () => {
        granted.open();
        await end.opened;
      }),
    );
    await expect.poll(said).toContainEqual(claiming);
    const next = two!.mutex('b').acquire();
    await lease.release();
    await granted.opened;
    await expect.poll(said).toEqual([{ host: expect.any(String), pid: process.pid }]);
    end.open();
    await chain;
    await (await next).release();
    await untilNothingLeft(server, clients[0], `${root}/a`, `${root}/b`);
  });

  it('are removed after an outage during which the wait ended', async () => {
    const root = server.path('outage');
    await using link = await server.newLink();
    const clients = await Promise.all([connect(), connect({ connectString: link.connectString })]);
    const [one, two] = clients.map((client) => locksOf(client, root));
    const said = () => detailsUnder(clients[0], `${root}/b`);
    const lease = await one!.mutex('b').acquire();
    const [cancel, end] = [new AbortController(), new Gate()];
    const chain = two!.mutex('a').withLock(async () => {
      const wait = two!.mutex('b').acquire({ signal: cancel.signal });
      await expect(wait).rejects.toThrow(WaitCancelledError);
      await end.opened;
    });
    await expect.poll(said).toContainEqual(claiming);
    // It holds nothing, and keeps the znode after the other wait.
    const next = two!.mutex('b').acquire();
    await link.down();
    cancel.abort();
    // Longer than the interval at which the claims are written.
    await pause(500);
    expect(await said()).toContainEqual(claiming);
    await link.up();
    await expect.poll(said).not.toContainEqual(claiming);
    end.open();
    await chain;
    await lease.release();
    await (await next).release();
    await untilNothingLeft(server, clients[0], `${root}/a`, `${root}/b`);
  });

  it('do not overwrite a revocation request after a lost reply', async () => {
    const root = server.path('lost-reply');
    await using link = await server.newLink();
    const { connectString } = link;
    const [client, other] = await Promise.all([connect({ connectString }), connect()]);
    const { mutex } = locksOf(client, root);
    const queue = locksOf(other, root).mutex('b');
    const lease = await queue.acquire();
    const chain = mutex('a').withLock(() =>
      mutex('b').withLock(async ({ revocation }) => {
        expect(await aborted(revocation)).toBeInstanceOf(LockRevokedError);
      }),
    );
    await expect.poll(async () => (await queue.participants()).length).toBe(2);
    await link.holdReplies();
    await expect.poll(() => detailsUnder(other, `${root}/b`)).toContainEqual(claiming);
    const [, waiter] = await queue.participants();
    await revoke(other, waiter!);
    await link.cut();
    // Longer than the interval at which the claims are written.
    await pause(500);
    await lease.release();
    await chain;
    await untilNothingLeft(server, other, `${root}/a`, `${root}/b`);
  });

  it('do not overwrite a revocation request', async () => {
    const root = server.path('revoked');
    const clients = await Promise.all([connect(), connect()]);
    const [one, two] = clients.map((client) => locksOf(client, root));
    const lease = await one!.mutex('b').acquire();
    const revoked = new Gate();
    const chain = two!.mutex('a').withLock(() =>
      two!.mutex('b').withLock(async ({ revocation }) => {
        if (!revocation.aborted) {
          await new Promise((resolve) => revocation.addEventListener('abort', resolve));
        }
        revoked.open();
      }),
    );
    await expect.poll(async () => (await one!.mutex('b').participants()).length).toBe(2);
    const [, waiter] = await one!.mutex('b').participants();
    await clients[0].set(waiter!.path, '__REVOKE__');
    await pause(1000);
    await lease.release();
    await revoked.opened;
    await chain;
  });
});
