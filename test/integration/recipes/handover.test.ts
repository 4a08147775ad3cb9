import { setTimeout as delay } from 'node:timers/promises';
import {
  LeaseLostError,
  LockTimeoutError,
  MultiLock,
  Mutex,
  ReadWriteLock,
  Semaphore,
  type Lease,
  type ZkClient,
} from 'nestjs-zookeeper/recipes';
import { describe, expect, vi } from 'vitest';
import type { Watch } from '../../../lib/client/index.js';
import { Session } from '../../../lib/client/session.js';
import { Affinity } from '../../../lib/kernel/affinity.js';
import { aborted, expire, useClients } from '../../support/clients.js';
import { eventually } from '../../support/eventually.js';
import { Gate } from '../../support/gate.js';
import { nodesUnder, untilNothingLeft, untilNodes } from '../../support/recipe-nodes.js';
import { isSimulated } from '../../support/environment.js';
import { useServer } from '../../support/servers.js';
import { afterEach, beforeEach, it, testProcess } from '../../support/virtual-time.js';

const server = useServer();
const connect = useClients(server);

let path: string;
let client: ZkClient;
let other: ZkClient;
beforeEach(async () => {
  path = server.path('handover');
  [client, other] = await Promise.all([connect(), connect()]);
});
/** Every test leaves neither znodes nor watches. */
afterEach(async () => untilNothingLeft(server, await connect(), path));

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
  });

  it('gets a zxid for more tokens when its znode is updated with the holder', async () => {
    await using link = await server.newLink();
    const client = await connect({ connectString: link.connectString });
    const rises = rising();
    const visits = Array.from({ length: 1100 }, (_, index) =>
      lockAt(client, path).withLock(
        async ({ fencingToken }) => {
          rises(fencingToken);
          // Half of the tokens are used up before the next grant.
          if (index === 511) await link.holdAll();
          if (index !== 512) return;
          await delay(DESCRIBED_AFTER);
          await link.resume();
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

  it('is not written for a holder with the details of the last one', async () => {
    const lock = lockAt(client, path);
    const acquire = () => lock.acquire({ details: { text: 'visit' } });
    const first = await acquire();
    const next = acquire();
    await first.release();
    await using _lease = await next;
    await delay(DESCRIBED_AFTER);
    const [node] = await nodesUnder(other, path);
    expect(await other.exists(`${path}/${node}`)).toMatchObject({ version: 0 });
  });

  it('uses no more tokens than one zxid can number while there is no connection', async () => {
    await using link = await server.newLink();
    const client = await connect({ connectString: link.connectString });
    const suspended = new Gate();
    const tokens: bigint[] = [];
    const visits = Array.from({ length: 1100 }, (_, index) =>
      lockAt(client, path).withLock(async ({ fencingToken }) => {
        tokens.push(fencingToken);
        if (index !== 100) return;
        // By then it is known that no other process waits.
        await delay(DESCRIBED_AFTER);
        await link.down();
        await eventually(() => expect(client.connected).toBe(false));
        suspended.open();
      }),
    );
    await suspended.opened;
    await delay(300);
    await link.up();
    await Promise.all(visits);
    // It could be higher than the tokens of the next holder in another process.
    expect(tokens).not.toContain(tokens[0]! + 1024n);
  });

  it('leaves the process after a revocation request, and tokens keep rising', async () => {
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
  });
});

describe('a lock that lingers', () => {
  // Longer than any test, so that the linger time never ends it.
  const linger = 3_600_000;

  it('is granted at once, without the network, with tokens that rise beyond what one zxid can number', async () => {
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
    await using tried = await lock.tryAcquire();
    expect(tried!.held).toBe(true);
  });

  it('is released for a waiter of another process that comes before or after the release', async () => {
    const held = await lockAt(client, path).acquire({ linger });
    const theirs = lockAt(other, path).acquire();
    await untilNodes(other, path, 2);
    await held.release();
    await (await theirs).release();
    await lockAt(client, path).withLock(() => {}, { linger });
    await (await lockAt(other, path).acquire()).release();
  });

  // On a real server the first listing may be that of the other process.
  it.runIf(isSimulated)(
    'is released for a waiter whose create is reported in one packet with the listing of the queue',
    async () => {
      const held = await lockAt(client, path).acquire({ linger });
      const { children } = Session.prototype;
      vi.spyOn(Session.prototype, 'children').mockImplementationOnce(async function (
        this: Session,
        at: string,
      ) {
        const listing = await (children as (...args: unknown[]) => Promise<{ watch: Watch }>).call(
          this,
          ...[at, { watch: true }],
        );
        await listing.watch.fired;
        return listing;
      } as unknown as typeof children);
      await held.release();
      const theirs = lockAt(other, path).acquire({ wait: 5000 });
      await (await theirs).release();
    },
  );

  it('is released after its linger time, on a revocation request, and with its session', async () => {
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
  });

  it.runIf(isSimulated)('grants nothing if its session expired during a pause', async () => {
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

describe("a lock with linger: 'auto'", () => {
  const options = { linger: 'auto' } as const;

  /** Uses the lock, with some milliseconds in between. Resolves to the number of znodes that lay there. */
  async function use(pauses: readonly number[], details?: object): Promise<number> {
    const lock = lockAt(client, path);
    const nodes = new Set<string>();
    for (const pause of [0, ...pauses]) {
      await new Promise((resolve) => setTimeout(resolve, pause));
      await lock.withLock(async () => nodes.add((await nodesUnder(other, path))[0]!), {
        ...options,
        ...details,
      });
    }
    return nodes.size;
  }

  it.runIf(isSimulated)('keeps its znode when it is used again within 100 ms', async () => {
    // The first use leaves no znode: nothing is known of the lock yet.
    expect(await use([50, 80, 90])).toBe(2);
    await untilNodes(other, path, 0);
    expect(await use([110, 110])).toBe(3);
    // It was used just before, so its first znode lingers, for 10 ms.
    expect(await use([5, 5, 30])).toBe(2);
  });

  it.runIf(isSimulated)(
    'does not linger before its second use after another process has waited',
    async () => {
      await use([50]);
      expect(await nodesUnder(other, path)).toHaveLength(1);
      await lockAt(other, path).withLock(() => {});
      await use([]);
      expect(await nodesUnder(other, path)).toEqual([]);
      await use([]);
      expect(await nodesUnder(other, path)).toHaveLength(1);
    },
  );

  it("does not linger with fairness: 'strict'", async () => {
    expect(await use([1, 1], { fairness: 'strict' })).toBe(3);
    expect(await nodesUnder(other, path)).toEqual([]);
  });

  it.runIf(isSimulated)('lingers for 100 ms at most', async () => {
    const affinity = Affinity.of(client);
    const lock = { recipe: 'mutex', path } as const;
    affinity.onReleased(lock);
    await new Promise((resolve) => setTimeout(resolve, 80));
    expect(affinity.lingerOf(lock)).toBe(100);
  });

  it.runIf(isSimulated)('remembers the 1,000 locks that were released last', () => {
    const affinity = Affinity.of(client);
    const lock = (number: number) => ({ recipe: 'mutex', path: `/${number}` }) as const;
    for (let i = 0; i < 1500; i++) affinity.onReleased(lock(i));
    expect([499, 1000, 1499].map((i) => affinity.lingerOf(lock(i)))).toEqual([0, 10, 10]);
    // The older half and the newer half.
    for (const i of [500, 1499]) {
      expect(affinity.lingerOf(lock(i))).toBe(10);
      affinity.forget(lock(i));
      expect(affinity.lingerOf(lock(i))).toBe(0);
    }
  });
});

describe('readers of one process', () => {
  it('keep the znode for readers that come again at once', async () => {
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
  });

  it('linger until a writer or a revocation request comes', async () => {
    const { read } = new ReadWriteLock(client, path);
    await read.withLock(() => {}, { linger: 3_600_000 });
    await untilNodes(other, path, 1);
    await new ReadWriteLock(other, path).read.withLock(() => {});
    await untilNodes(other, path, 1);
    await new ReadWriteLock(other, path).write.withLock(() => {});
    await read.withLock(() => {}, { linger: 3_600_000 });
    await untilNodes(other, path, 1);
    await new ReadWriteLock(other, path).read.revoke();
  });

  it('share the latest znode, also while an earlier one is still held', async () => {
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
  });

  it('lose their leases together with their znode, and release them separately', async () => {
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
  });
});

describe('a loop that awaits nothing but the lock', () => {
  it.each(['mutex', 'read lock', 'lingering'])(
    'does not starve the event loop: %s',
    async (kind) => {
      const lock =
        kind === 'read lock' ? new ReadWriteLock(client, path).read : new Mutex(client, path);
      const options = { linger: kind === 'lingering' ? 1_000 : 0 };
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

describe('the locks of a multi-lock', () => {
  it('are not handed over: the next holder of any of them has a token above the highest', async () => {
    const [a, b] = [server.path('multi-a'), server.path('multi-b')];
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
    const semaphore = new Semaphore(client, `${path}-permits`, { permits: 4 });
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
    const leases = await nodesDuring(other, `${path}-permits/leases`, work);
    expect(visits).toBe(320);
    expect(most).toBeLessThanOrEqual(4);
    // A few callers request permits from the server while the first permits come.
    expect(leases.size).toBeLessThan(50);
    await untilNothingLeft(server, other, `${path}-permits/locks`, `${path}-permits/leases`);
  });

  it('are requested again if the first waiter leaves and the next wants fewer', async () => {
    const held = await new Semaphore(client, `${path}-permits`, { permits: 2 }).acquire();
    const semaphore = new Semaphore(other, `${path}-permits`, { permits: 2 });
    const both = semaphore.acquire({ count: 2, wait: 100 });
    const one = semaphore.acquire();
    await expect(both).rejects.toThrow(LockTimeoutError);
    await (await one).release();
    await held.release();
    await untilNothingLeft(server, client, `${path}-permits/locks`, `${path}-permits/leases`);
  });
});
