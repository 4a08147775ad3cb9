import { setTimeout as delay } from 'node:timers/promises';
import {
  currentLease,
  LeaseLostError,
  LockTimeoutError,
  MultiLock,
  Mutex,
  ReadWriteLock,
  Semaphore,
  type Lease,
  type ZkClient,
} from 'nestjs-zookeeper/recipes';
import { describe, expect } from 'vitest';
import { aborted, expire, useClients } from '../../support/clients.js';
import { eventually } from '../../support/eventually.js';
import { nodesUnder, untilNothingLeft, untilNodes } from '../../support/recipe-nodes.js';
import { isSimulated } from '../../support/environment.js';
import { useServer } from '../../support/servers.js';
import { it, testProcess } from '../../support/virtual-time.js';

const server = useServer();
const connect = useClients(server);

/** Milliseconds. The znode of a lock names a holder that has held it for longer than this. */
const DESCRIBED_AFTER = 60;

const lockAt = (client: ZkClient, path: string) => new Mutex(client, path);

/** Checks that each token is higher than all before it. */
function rising(): (token: bigint) => void {
  let last = 0n;
  return (token) => {
    if (token <= last) throw new Error(`the token ${token} is not higher than ${last}`);
    last = token;
  };
}

/** Returns the names of the znodes that existed under a path while `work` ran. */
async function nodesDuring(client: ZkClient, path: string, work: Promise<unknown>) {
  const seen = new Set<string>();
  let over = false;
  void work.finally(() => (over = true));
  while (!over) for (const name of await nodesUnder(client, path)) seen.add(name);
  await work;
  return seen;
}

describe('a lock handed over within a process', () => {
  it('uses one znode for more waiters than one zxid can number, in the order of their calls', async () => {
    const path = server.path('renewed');
    const [client, other] = await Promise.all([connect(), connect()]);
    const rises = rising();
    const order: number[] = [];
    const indexes = Array.from({ length: 1100 }, (_, index) => index);
    const held = await lockAt(client, path).acquire();
    const visits = indexes.map((index) =>
      lockAt(client, path).withLock(({ fencingToken }) => {
        if (index < 100) expect(fencingToken).toBe(held.fencingToken + BigInt(index + 1));
        rises(fencingToken);
        order.push(index);
      }),
    );
    await untilNodes(other, path, 1);
    void held.release();
    const seen = await nodesDuring(other, path, Promise.all(visits));
    expect(order).toEqual(indexes);
    expect(seen.size).toBe(1);
    await lockAt(other, path).withLock(({ fencingToken }) => rises(fencingToken));
    await untilNothingLeft(server, other, path);
  });

  it('gets a zxid for more tokens when its znode is updated with the holder', async () => {
    const path = server.path('renewed-and-described');
    await using link = await server.newLink();
    const client = await connect({ connectString: link.connectString });
    const other = await connect();
    const rises = rising();
    const visits = Array.from({ length: 1100 }, (_, index) =>
      lockAt(client, path).withLock(
        async ({ fencingToken }) => {
          rises(fencingToken);
          // Half of the tokens are used up before the next grant.
          if (index === 511) await link.silence();
          if (index !== 512) return;
          await delay(DESCRIBED_AFTER);
          await link.speak();
          await eventually(async () =>
            expect(await lockAt(other, path).participants()).toMatchObject([
              { details: { text: 'visit 512' } },
            ]),
          );
        },
        { details: { text: `visit ${index}` } },
      ),
    );
    const seen = await nodesDuring(other, path, Promise.all(visits));
    expect(seen.size).toBe(1);
  });

  it('leaves the process after a revocation request, and tokens keep rising', async () => {
    const path = server.path('renewed-and-revoked');
    const [client, other] = await Promise.all([connect(), connect()]);
    const rises = rising();
    const seen = await nodesDuring(
      other,
      path,
      Promise.all(
        Array.from({ length: 1100 }, (_, index) =>
          lockAt(client, path).withLock(async ({ fencingToken }) => {
            rises(fencingToken);
            if (index === 100) await lockAt(other, path).revoke();
            // The holder keeps the lock until the other client has seen it.
            if (index === 1099) await lockAt(other, path).participants();
          }),
        ),
      ),
    );
    expect(seen.size).toBe(2);
  });

  it('goes to another process after a bounded time, and comes back', async () => {
    const path = server.path('bound');
    const clients = await Promise.all([connect(), connect()]);
    let inside = 0;
    const rises = rising();
    const grants = clients.map(() => 0);
    const turns: number[] = [];
    await Promise.all(
      clients.flatMap((client, index) =>
        Array.from({ length: 8 }, async () => {
          for (let visit = 0; visit < 100; visit++) {
            await lockAt(client, path).withLock(({ fencingToken }) => {
              expect(++inside).toBe(1);
              rises(fencingToken);
              grants[index]!++;
              if (turns.at(-1) !== index) turns.push(index);
              inside--;
            });
          }
        }),
      ),
    );
    expect(grants).toEqual([800, 800]);
    // No process served all of its waiters before the other one began.
    expect(turns.length).toBeGreaterThan(3);
    await untilNothingLeft(server, clients[0]!, path);
  });

  it('does not make other processes wait for waiters that hold it for long', async () => {
    const path = server.path('long');
    const [client, other] = await Promise.all([connect(), connect()]);
    const order: string[] = [];
    const held = await lockAt(client, path).acquire();
    const here = [1, 2].map(() =>
      lockAt(client, path).withLock(async () => {
        order.push('here');
        await delay(15);
      }),
    );
    const there = lockAt(other, path).withLock(() => void order.push('there'));
    await untilNodes(other, path, 2);
    await delay(15);
    await held.release();
    await Promise.all([...here, there]);
    expect(order[0]).toBe('there');
  });

  it('is lost for its holder only when its session ends; the next waiter gets it in a new session', async () => {
    const path = server.path('lost');
    const client = await connect();
    const [first, second] = [lockAt(client, path), lockAt(client, path)];
    await (await first.acquire()).release();
    const held = await first.acquire();
    const next = second.acquire();
    await expire(client, server);
    expect(await aborted(held.signal)).toBeInstanceOf(LeaseLostError);
    const lease = await next;
    expect(lease.held).toBe(true);
    expect(lease.fencingToken).toBeGreaterThan(held.fencingToken);
    await lease.release();
    await untilNothingLeft(server, client, path);
  });

  it('is not handed over after a revocation request', async () => {
    const path = server.path('revoked');
    const [client, other] = await Promise.all([connect(), connect()]);
    const held = await lockAt(client, path).acquire();
    const next = lockAt(client, path).acquire();
    const [before] = await nodesUnder(other, path);
    const asked = aborted(held.revocation);
    await lockAt(other, path).revoke();
    await asked;
    await held.release();
    const lease = await next;
    expect(await nodesUnder(other, path)).not.toContain(before);
    expect(lease.revocation.aborted).toBe(false);
    await lease.release();
  });

  it('applies holdAtLeast and holdAtMost to each grant', async () => {
    const path = server.path('bounds');
    const client = await connect();
    const lock = lockAt(client, path);
    const hung = await lock.acquire({ holdAtMost: 60 });
    const next = lock.acquire();
    expect(await aborted(hung.signal)).toBeInstanceOf(LeaseLostError);
    const lease = await next;
    expect(lease.fencingToken).toBeGreaterThan(hung.fencingToken);
    await hung.release();
    expect(lease.held).toBe(true);
    await lease.release();
    const started = performance.now();
    const kept = await lock.acquire({ holdAtLeast: 100 });
    await kept.release();
    await (await lock.acquire()).release();
    expect(performance.now() - started).toBeGreaterThan(80);
    await untilNothingLeft(server, client, path);
  });
});

describe('a lock that lingers', () => {
  // Longer than any test, so that the linger time never ends it.
  const linger = 3_600_000;

  it('is granted at once, without the network, with tokens that rise beyond what one zxid can number', async () => {
    const path = server.path('linger-on');
    const [client, observer] = await Promise.all([connect(), connect()]);
    const lock = lockAt(client, path);
    const rises = rising();
    let atOnce = 0;
    let first: Lease | undefined;
    const visitAll = async () => {
      for (let visits = 0; visits < 1100; visits++) {
        let began = false;
        const visit = lock.withLock(
          (lease) => {
            began = true;
            rises(lease.fencingToken);
            first ??= lease;
            expect(first.held).toBe(first === lease);
          },
          { linger },
        );
        if (began) atOnce++;
        await visit;
      }
    };
    const seen = await nodesDuring(observer, path, visitAll());
    expect(seen.size).toBe(1);
    // Except for grants that wait behind other work of the event loop.
    expect(atOnce).toBeGreaterThan(500);
    await using tried = await lock.tryAcquire({ linger });
    expect(tried!.held).toBe(true);
  });

  it('is released for a waiter of another process that comes before or after the release', async () => {
    const path = server.path('newcomer');
    const [client, other] = await Promise.all([connect(), connect()]);
    const held = await lockAt(client, path).acquire({ linger });
    const theirs = lockAt(other, path).acquire();
    await untilNodes(other, path, 2);
    await held.release();
    await (await theirs).release();
    await lockAt(client, path).withLock(() => {}, { linger });
    await (await lockAt(other, path).acquire()).release();
    await untilNothingLeft(server, client, path);
  });

  it('is released after its linger time, on a revocation request, and with its session', async () => {
    const path = server.path('ends');
    const [client, other] = await Promise.all([connect(), connect()]);
    const lock = lockAt(client, path);
    await lock.withLock(() => {}, { linger: 50 });
    await untilNodes(other, path, 0);
    await lock.withLock(() => {}, { linger });
    await lock.withLock(() => {}, { linger: 50 });
    await untilNodes(other, path, 0);
    await lock.withLock(() => {}, { linger });
    await untilNodes(other, path, 1);
    await lockAt(other, path).revoke();
    await untilNodes(other, path, 0);
    await lock.withLock(() => {}, { linger });
    await expire(client, server);
    await untilNodes(other, path, 0);
    let again = 0;
    await lock.withLock(() => void again++, { linger: 0 });
    expect(again).toBe(1);
    await untilNothingLeft(server, other, path);
  });

  it.runIf(isSimulated)('grants nothing if its session expired during a pause', async () => {
    const path = server.path('pause');
    const [client, other] = await Promise.all([connect({ sessionTimeout: 2000 }), connect()]);
    await lockAt(client, path).withLock(() => {}, { linger });
    const [before] = await nodesUnder(other, path);
    const session = await client.session();
    // Longer than the session deadline.
    testProcess().block(2200);
    const lease = await lockAt(client, path).acquire();
    expect(session.alive).toBe(false);
    expect(lease.held).toBe(true);
    expect(await nodesUnder(other, path)).not.toContain(before);
    await lease.release();
  });
});

describe('readers of one process', () => {
  it('share a znode, also with readers that come later', async () => {
    const path = server.path('shared');
    const [client, observer] = await Promise.all([connect(), connect()]);
    const { read } = new ReadWriteLock(client, path);
    const leases = await Promise.all(Array.from({ length: 20 }, () => read.acquire()));
    leases.push(await read.acquire());
    expect(await nodesUnder(observer, path)).toHaveLength(1);
    await Promise.all(leases.slice(1).map((lease) => lease.release()));
    expect(leases[0]!.held).toBe(true);
    expect(await nodesUnder(observer, path)).toHaveLength(1);
    await leases[0]!.release();
    await untilNothingLeft(server, observer, path);
  });

  it('keep the znode for readers that come again at once', async () => {
    const path = server.path('again');
    const client = await connect();
    // Persistent, because a container may be reaped in between and would restart its counter.
    await client.create(path);
    const { read } = new ReadWriteLock(client, path);
    const held = await read.acquire();
    const before = await client.exists(path);
    await held.release();
    let grants = 0;
    await Promise.all(
      Array.from({ length: 8 }, async () => {
        while (grants++ < 200) await read.withLock(() => {});
      }),
    );
    const after = await client.exists(path);
    // One node was created and one deleted, where each of the eight could have used its own.
    expect(after!.cversion - before!.cversion).toBeLessThan(10);
  });

  it('use a new znode once a writer waits', async () => {
    const path = server.path('writer');
    const [client, other] = await Promise.all([connect(), connect()]);
    const { read } = new ReadWriteLock(client, path);
    const order: string[] = [];
    const first = await read.acquire();
    await (await read.acquire()).release();
    const writing = new ReadWriteLock(other, path).write.withLock(() => void order.push('write'));
    await untilNodes(other, path, 2);
    // As soon as this process knows of the writer.
    await expect
      .poll(async () => {
        const lease = await read.tryAcquire();
        await lease?.release();
        return lease;
      })
      .toBeUndefined();
    const later = read.withLock(() => void order.push('read'));
    await first.release();
    await Promise.all([writing, later]);
    expect(order).toEqual(['write', 'read']);
    await untilNothingLeft(server, client, path);
  });

  it('linger until a writer or a revocation request comes', async () => {
    const path = server.path('linger-read');
    const [client, other] = await Promise.all([connect(), connect()]);
    const { read } = new ReadWriteLock(client, path);
    await read.withLock(() => {}, { linger: 3_600_000 });
    await untilNodes(other, path, 1);
    await new ReadWriteLock(other, path).read.withLock(() => {});
    await untilNodes(other, path, 1);
    await new ReadWriteLock(other, path).write.withLock(() => {});
    await read.withLock(() => {}, { linger: 3_600_000 });
    await untilNodes(other, path, 1);
    await new ReadWriteLock(other, path).read.revoke();
    await untilNothingLeft(server, client, path);
  });

  it('share the latest znode, also while an earlier one is still held', async () => {
    const path = server.path('latest');
    const [client, other] = await Promise.all([connect(), connect()]);
    const { read } = new ReadWriteLock(client, path);
    const earlier = await read.acquire();
    const stop = new AbortController();
    const writing = new ReadWriteLock(other, path).write.acquire({ signal: stop.signal });
    writing.catch(() => {});
    await untilNodes(other, path, 2);
    const behindWriter = read.acquire();
    await untilNodes(other, path, 3);
    stop.abort();
    await (await behindWriter).release();
    await untilNodes(other, path, 1);
    const later = await read.acquire();
    await untilNodes(other, path, 2);
    await earlier.release();
    await untilNodes(other, path, 1);
    const last = await read.acquire();
    expect(await nodesUnder(other, path)).toHaveLength(1);
    await Promise.all([later.release(), last.release()]);
    await untilNothingLeft(server, client, path);
  });

  it('lose their leases together with their znode, and release them separately', async () => {
    const path = server.path('lost-readers');
    const client = await connect();
    const { read } = new ReadWriteLock(client, path);
    const [one, two] = await Promise.all([read.acquire(), read.acquire()]);
    await one!.release();
    expect([one!.held, two!.held]).toEqual([false, true]);
    await expire(client, server);
    expect(await aborted(two!.signal)).toBeInstanceOf(LeaseLostError);
    expect(one!.signal.aborted).toBe(false);
  });
});

describe('a write lock whose holder reads too', () => {
  it('is not handed over beside its own reader', async () => {
    const path = server.path('beside');
    const client = await connect();
    const rw = new ReadWriteLock(client, path);
    const writing = await rw.write.acquire();
    let wrote = false;
    const next = rw.write.withLock(() => void (wrote = true));
    const reading = await rw.downgrade(writing);
    await client.sync(path);
    await client.sync(path);
    expect([reading.held, wrote]).toEqual([true, false]);
    await reading.release();
    await next;
    expect(wrote).toBe(true);
    await untilNothingLeft(server, client, path);
  });
});

describe('a loop that awaits nothing but the lock', () => {
  it.each(['mutex', 'read lock', 'lingering'])(
    'does not starve the event loop: %s',
    async (kind) => {
      const client = await connect();
      const path = server.path('loop');
      const lock =
        kind === 'read lock' ? new ReadWriteLock(client, path).read : new Mutex(client, path);
      const options = { linger: kind === 'lingering' ? 3_600_000 : 0 };
      const kept = kind === 'read lock' ? await lock.acquire() : undefined;
      let turns = 0;
      let over = false;
      const tick = () => {
        turns++;
        if (!over) setImmediate(tick);
      };
      setImmediate(tick);
      const loops = Array.from({ length: 4 }, async () => {
        for (let i = 0; i < 500; i++) await lock.withLock(() => {}, options);
      });
      await Promise.all(loops);
      over = true;
      expect(turns).toBeGreaterThan(5);
      await kept?.release();
    },
  );
});

describe('reentrancy under hand-over', () => {
  it('stays exact', async () => {
    const path = server.path('reentrant');
    const client = await connect();
    const mutex = new Mutex(client, path);
    let depth = 0;
    await Promise.all(
      Array.from({ length: 50 }, () =>
        mutex.withLock(async (outer) => {
          expect(++depth).toBe(1);
          await mutex.withLock((inner) => {
            expect(inner.fencingToken).toBe(outer.fencingToken);
            expect(currentLease()).toBe(inner);
          });
          expect(outer.held).toBe(true);
          depth--;
        }),
      ),
    );
  });
});

describe('the locks of a multi-lock', () => {
  it('are not handed over: the next holder of any of them has a token above the highest', async () => {
    const [a, b] = [server.path('multi-a'), server.path('multi-b')];
    const client = await connect();
    const mutexes = () => [a, b].map((path) => new Mutex(client, path));
    await new Mutex(client, a).withLock(() => {});
    const held = await new Mutex(client, a).acquire();
    // By then the zxid of the second lock is above that of the first.
    const both = new MultiLock(mutexes()).acquire();
    const next = new Mutex(client, a).acquire();
    await held.release();
    const lease = await both;
    const { fencingToken } = lease;
    await lease.release();
    const later = await next;
    expect(later.fencingToken).toBeGreaterThan(fencingToken);
    await later.release();
    await untilNothingLeft(server, client, a, b);
  });
});

describe('permits handed over within a process', () => {
  it('need no more lease nodes than there are permits, and no queue node', async () => {
    const path = server.path('permits');
    const [client, observer] = await Promise.all([connect(), connect()]);
    const semaphore = new Semaphore(client, path, { permits: 4 });
    let inside = 0;
    let most = 0;
    let visits = 0;
    const work = Promise.all(
      Array.from({ length: 16 }, async () => {
        for (let i = 0; i < 20; i++) {
          await semaphore.withLock(async () => {
            most = Math.max(most, ++inside);
            visits++;
            await new Promise((resolve) => setImmediate(resolve));
            inside--;
          });
        }
      }),
    );
    const leases = await nodesDuring(observer, `${path}/leases`, work);
    expect(visits).toBe(320);
    expect(most).toBeLessThanOrEqual(4);
    // A few callers request permits from the server while the first permits come.
    expect(leases.size).toBeLessThan(50);
    await untilNothingLeft(server, observer, `${path}/locks`, `${path}/leases`);
  });

  it('are requested again if the first waiter leaves and the next wants fewer', async () => {
    const path = server.path('permits-fewer');
    const [holder, other] = await Promise.all([connect(), connect()]);
    const held = await new Semaphore(holder, path, { permits: 2 }).acquire();
    const semaphore = new Semaphore(other, path, { permits: 2 });
    const both = semaphore.acquire({ count: 2, wait: 100 });
    const one = semaphore.acquire();
    await expect(both).rejects.toThrow(LockTimeoutError);
    await (await one).release();
    await held.release();
    await untilNothingLeft(server, holder, `${path}/locks`, `${path}/leases`);
  });
});
