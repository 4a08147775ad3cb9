import { once } from 'node:events';
import { describe, expect, it } from 'vitest';
import {
  BadOptionError,
  currentLease,
  type Lease,
  LeaseLostError,
  type Lock,
  LockBusyError,
  LockRevokedError,
  MultiLock,
  Mutex,
  NonReentrantMutex,
  ReadWriteLock,
  revoke,
  SelfDeadlockError,
  Semaphore,
  WaitCancelledError,
  type ZkClient,
} from 'nestjs-zookeeper/recipes';
import { aborted, expire, useClients } from '../../support/clients.js';
import {
  failureOf,
  nodesUnder,
  untilNothingLeft,
  observed,
  untilNodes,
} from '../../support/recipe-nodes.js';
import { useServer } from '../../support/servers.js';

const server = useServer();
const connect = useClients(server);

function paths(name: string): string[] {
  const base = server.path(name);
  return ['a', 'b', 'c'].map((part) => `${base}/${part}`);
}

function mutexes(client: ZkClient, of: readonly string[]): Mutex[] {
  return of.map((path) => new Mutex(client, path));
}

/** A lock whose behaviour the test defines. */
function stub(path: string, acquire: () => Promise<Partial<Lease>>): Lock {
  return { path, key: path, acquire, enter: acquire } as unknown as Lock;
}

describe('MultiLock', () => {
  it('holds all of its locks, and lists their tokens in the order in which they were named', async () => {
    const [a, b, c] = paths('all') as [string, string, string];
    const [client, other] = await Promise.all([connect(), connect()]);
    const lease = await new MultiLock(mutexes(client, [c, a, b])).acquire();
    expect(lease.held).toBe(true);
    expect(lease.leases.map(({ path }) => path)).toEqual([c, a, b]);
    const tokens = lease.leases.map(({ fencingToken }) => fencingToken);
    expect(lease.fencingToken).toBe(tokens.reduce((x, y) => (x > y ? x : y)));
    for (const path of [a, b, c]) {
      await expect(new Mutex(other, path).acquire({ wait: 0 })).rejects.toThrow(LockBusyError);
    }
    const released = lease.release();
    expect(lease.held).toBe(false);
    await released;
    for (const path of [a, b, c]) {
      await new Mutex(other, path).withLock(
        ({ fencingToken }) => expect(fencingToken).toBeGreaterThan(lease.fencingToken),
        { wait: 0 },
      );
    }
    await untilNothingLeft(server, client, a, b, c);
  });

  it('acquires its locks in the byte order of their paths, so that opposite lists never deadlock', async () => {
    const all = paths('order');
    const clients = await Promise.all([connect(), connect(), connect()]);
    let inside = 0;
    let most = 0;
    await Promise.all(
      clients.flatMap((client, index) =>
        Array.from({ length: 10 }, (_, round) => {
          const list = (index + round) % 2 ? all.toReversed() : all;
          return new MultiLock(mutexes(client, list)).withLock(async () => {
            most = Math.max(most, ++inside);
            await client.sync('/');
            inside--;
          });
        }),
      ),
    );
    expect(most).toBe(1);
    await untilNothingLeft(server, clients[0]!, ...all);
  });

  it('orders by bytes, not by UTF-16 units or a locale', async () => {
    const base = server.path('bytes');
    const taken: string[] = [];
    const names = ['b', 'Z', 'é', 'a', '\uffee', '\u{1f600}', 'a/b'];
    const locks = names.map((name) =>
      stub(`${base}/${name}`, async () => {
        taken.push(name);
        return { signal: new AbortController().signal, release: async () => undefined };
      }),
    );
    await failureOf(new MultiLock([...locks, stub(`${base}/\u{1f601}`, fail)]).acquire());
    expect(taken).toEqual(['Z', 'a', 'a/b', 'b', 'é', '\uffee', '\u{1f600}']);
  });

  it('starts again when it loses one lock while it waits for another', async () => {
    const [a, b] = paths('lost-while-waiting') as [string, string];
    const [client, other] = await Promise.all([connect(), connect()]);
    const blocking = await new Mutex(other, b).acquire();
    const waiting = observed(new MultiLock(mutexes(client, [a, b])).acquire());
    await untilNodes(other, b, 2);
    await expire(client, server);
    // Another client has the first lock while the second is waited for in a new session.
    const between = await new Mutex(other, a).acquire();
    await untilNodes(other, b, 2);
    await blocking.release();
    await untilNodes(other, a, 2);
    expect(waiting.settled).toBe(false);
    await between.release();
    const lease = await waiting.promise;
    expect(lease.leases.map(({ held }) => held)).toEqual([true, true]);
    expect(lease.leases[0]!.fencingToken).toBeGreaterThan(between.fencingToken);
    await lease.release();
    await untilNothingLeft(server, other, a, b);
  });

  it('stops at the first failure and releases the locks that it had acquired', async () => {
    const [a, b, c] = paths('stop') as [string, string, string];
    const [client, other] = await Promise.all([connect(), connect()]);
    const held = await new Mutex(other, b).acquire();
    const multi = new MultiLock(mutexes(client, [a, b, c]));
    await expect(multi.acquire({ wait: 0 })).rejects.toThrow(LockBusyError);
    await untilNodes(client, a, 0);
    expect(await client.exists(c)).toBeUndefined();
    await held.release();
    await (await multi.acquire({ wait: 0 })).release();
  });

  it('names the locks in its timeout error when the first lock used up the wait', async () => {
    const [a, b] = paths('no-time-left') as [string, string];
    const [client, other] = await Promise.all([connect(), connect()]);
    const held = await new Semaphore(other, b, { permits: 1 }).acquire();
    const slow = stub(a, async () => {
      const end = performance.now() + 20;
      while (performance.now() < end) await client.sync('/');
      return { signal: new AbortController().signal, release: async () => undefined };
    });
    const multi = new MultiLock([slow, new Semaphore(client, b, { permits: 1, key: 'beds' })]);
    expect(await failureOf(multi.acquire({ wait: 10 }))).toMatchObject({
      code: 'TIMEOUT',
      key: 'beds',
      message:
        'no permit of semaphore "beds" was granted within 10 ms; participants() lists the holders',
    });
    await held.release();
  });

  it('rejects with the cause, and emits a process warning when the release fails too', async () => {
    const why = new Error('the last one fails');
    const stays = new Error('it stays');
    const warning = once(process, 'warning');
    const multi = new MultiLock([
      stub('/a', async () => ({ release: () => Promise.reject(stays) })),
      stub('/b', () => Promise.reject(why)),
    ]);
    expect(await failureOf(multi.acquire())).toBe(why);
    const [warned] = (await warning) as [AggregateError];
    expect(warned.errors).toEqual([stays]);
    expect(warned.cause).toBe(why);
  });

  it('rejects when its signal aborts, and leaves nothing behind', async () => {
    const [a, b] = paths('cancel') as [string, string];
    const [client, other] = await Promise.all([connect(), connect()]);
    const held = await new Mutex(other, b).acquire();
    const controller = new AbortController();
    const waiting = new MultiLock(mutexes(client, [b, a])).acquire({ signal: controller.signal });
    await untilNodes(client, b, 2);
    controller.abort();
    await expect(waiting).rejects.toThrow(WaitCancelledError);
    await untilNodes(client, a, 0);
    await held.release();
    await untilNothingLeft(server, client, a, b);
  });

  it('accepts any mixture of locks', async () => {
    const base = server.path('mixture');
    const [client, other] = await Promise.all([connect(), connect()]);
    const of = (zk: ZkClient) => [
      new Semaphore(zk, `${base}/semaphore`, { permits: 2 }),
      new ReadWriteLock(zk, `${base}/shared`).read,
      new Mutex(zk, `${base}/mutex`),
      new ReadWriteLock(zk, `${base}/own`).write,
      new NonReentrantMutex(zk, `${base}/single`),
    ];
    const lease = await new MultiLock(of(client)).acquire();
    const [semaphore, shared, ...exclusive] = of(other);
    await (await new MultiLock([shared!, semaphore!]).acquire({ wait: 0 })).release();
    for (const lock of exclusive) {
      await expect(lock.acquire({ wait: 0 })).rejects.toThrow(LockBusyError);
    }
    await lease.release();
    await (await new MultiLock(of(other)).acquire({ wait: 0 })).release();
    await untilNothingLeft(
      server,
      client,
      ...['mutex', 'shared', 'own', 'semaphore/locks', 'semaphore/leases', 'single/leases'].map(
        (path) => `${base}/${path}`,
      ),
    );
  });
});

describe('a list of locks', () => {
  it('is rejected when it is empty', () => {
    expect(() => new MultiLock([])).toThrow(BadOptionError);
    expect(() => new MultiLock(undefined as unknown as Lock[])).toThrow(BadOptionError);
  });

  it('is rejected when it names one path twice, whatever the recipes', async () => {
    const client = await connect();
    const [a] = paths('twice') as [string];
    const { read, write } = new ReadWriteLock(client, a);
    for (const list of [mutexes(client, [a, a]), [read, write], [new Mutex(client, a), read]]) {
      expect(() => new MultiLock(list)).toThrow(BadOptionError);
      expect(() => new MultiLock(list)).toThrow(a);
    }
  });

  it.each([-1, Number.NaN, '5'])('is rejected with a wait of %s', async (wait) => {
    const all = paths('bad-wait');
    const client = await connect();
    const multi = new MultiLock(mutexes(client, all));
    await expect(multi.acquire({ wait: wait as number })).rejects.toThrow(BadOptionError);
    expect(await client.exists(all[0]!)).toBeUndefined();
  });
});

describe('a call chain that holds a multi-lock', () => {
  it('re-enters all of its locks and each of them', async () => {
    const all = paths('again');
    const client = await connect();
    const multi = new MultiLock(mutexes(client, all));
    await multi.withLock(async (outer) => {
      await multi.withLock((inner) => expect(inner.fencingToken).toBe(outer.fencingToken));
      await new MultiLock(mutexes(client, all.slice(1))).withLock(() => undefined);
      for (const mutex of mutexes(client, all)) {
        await mutex.withLock(async () => {
          expect(currentLease(mutex.path)?.held).toBe(true);
          expect(await nodesUnder(client, mutex.path)).toHaveLength(1);
        });
      }
      expect(outer.held).toBe(true);
      await expect(multi.acquire()).rejects.toThrow(SelfDeadlockError);
      expect(outer.held).toBe(true);
    });
    await untilNothingLeft(server, client, ...all);
  });

  it('gets an error when one of the locks is not reentrant, and keeps its leases', async () => {
    const [a, b] = paths('strict') as [string, string];
    const client = await connect();
    const multi = new MultiLock([new Mutex(client, a), new NonReentrantMutex(client, b)]);
    await multi.withLock(async (lease) => {
      await expect(multi.withLock(() => 'never')).rejects.toThrow(SelfDeadlockError);
      expect(lease.held).toBe(true);
      expect(await nodesUnder(client, a)).toHaveLength(1);
    });
    await untilNothingLeft(server, client, a, `${b}/locks`, `${b}/leases`);
  });

  it('releases when its callback throws, and passes the error on', async () => {
    const all = paths('throws');
    const client = await connect();
    const failure = new Error('the order is wrong');
    await expect(
      new MultiLock(mutexes(client, all)).withLock(() => Promise.reject(failure)),
    ).rejects.toBe(failure);
    await untilNothingLeft(server, client, ...all);
  });
});

describe('the lease of a multi-lock', () => {
  it('is lost with the first of its leases', async () => {
    const [a, b] = paths('lost') as [string, string];
    const [one, two] = await Promise.all([connect(), connect()]);
    const lease = await new MultiLock([new Mutex(one, a), new Mutex(two, b)]).acquire();
    await expire(two, server);
    expect(await aborted(lease.signal)).toBeInstanceOf(LeaseLostError);
    expect(lease.held).toBe(false);
    expect(lease.leases.map(({ held }) => held)).toEqual([true, false]);
    await lease.release();
    await untilNothingLeft(server, one, a, b);
  });

  it('receives a revocation request made for any of its locks', async () => {
    const [a, b] = paths('revoked') as [string, string];
    const [client, other] = await Promise.all([connect(), connect()]);
    const lease = await new MultiLock(mutexes(client, [a, b])).acquire();
    const [holder] = await new Mutex(other, b).participants();
    const { revocation } = lease;
    await revoke(other, holder!);
    expect(await aborted(revocation)).toBeInstanceOf(LockRevokedError);
    expect(lease.held).toBe(true);
    await lease.release();
  });

  it('releases in the opposite order, tries every lock, and reports all failures', async () => {
    const released: string[] = [];
    const locks = ['/a', '/b', '/c'].map((path) =>
      stub(path, async () => ({
        path,
        held: true,
        signal: new AbortController().signal,
        release: () => {
          released.push(path);
          return path === '/b' ? Promise.resolve() : Promise.reject(new Error(path));
        },
      })),
    );
    const lease = await new MultiLock(locks).acquire();
    const error = (await failureOf(lease.release())) as AggregateError;
    expect(released).toEqual(['/c', '/b', '/a']);
    expect(error.errors.map(({ message }: Error) => message)).toEqual(['/c', '/a']);
  });

  it('may be released again', async () => {
    const all = paths('twice-released');
    const client = await connect();
    const lease = await new MultiLock(mutexes(client, all)).acquire();
    await lease.release();
    const next = await new MultiLock(mutexes(client, all)).acquire({ wait: 0 });
    await lease.release();
    expect(next.held).toBe(true);
    await next.release();
  });
});

function fail(): Promise<never> {
  return Promise.reject(new Error('the last one fails'));
}
