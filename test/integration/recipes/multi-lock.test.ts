import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect } from 'vitest';
import {
  currentLease,
  type Lease,
  LeaseLostError,
  type Lock,
  LockBusyError,
  LockRevokedError,
  MultiLock,
  Mutex,
  NonReentrantMutex,
  revoke,
  SelfDeadlockError,
  Semaphore,
  type ZkClient,
} from 'nestjs-zookeeper/recipes';
import { aborted, expire, useClients } from '../../support/clients.js';
import { failureOf, nodesUnder, untilNothingLeft, untilNodes } from '../../support/recipe-nodes.js';
import { useServer } from '../../support/servers.js';
import { it } from '../../support/virtual-time.js';

const server = useServer();
const connect = useClients(server);

function paths(name: string): [string, string, string] {
  const base = server.path(name);
  return [`${base}/a`, `${base}/b`, `${base}/c`];
}

function mutexes(client: ZkClient, of: readonly string[]): Mutex[] {
  return of.map((path) => new Mutex(client, path));
}

/** A lock whose behaviour the test defines. */
function stub(path: string, acquire: () => Promise<Partial<Lease>>): Lock {
  return { path, key: path, acquire, enter: acquire } as unknown as Lock;
}

describe('MultiLock', () => {
  it('holds all of its locks until it is released once, and lists their leases in the order in which they were named', async () => {
    const [a, b, c] = paths('all');
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
    const next = await new MultiLock(mutexes(client, [a, b, c])).acquire({ wait: 0 });
    for (const { fencingToken } of next.leases) {
      expect(fencingToken).toBeGreaterThan(lease.fencingToken);
    }
    await lease.release();
    expect(next.held).toBe(true);
    await next.release();
    await untilNothingLeft(server, client, a, b, c);
  });

  it('acquires its locks in the order of the bytes of their paths, not of UTF-16 units or a locale', async () => {
    const base = server.path('bytes');
    const taken: string[] = [];
    const names = ['b', 'Z', 'é', 'a', '\uffee', '\u{1f600}', 'a/b'];
    const locks = names.map((name) =>
      stub(`${base}/${name}`, async () => {
        taken.push(name);
        return { signal: new AbortController().signal, release: async () => undefined };
      }),
    );
    const last = stub(`${base}/\u{1f601}`, () => Promise.reject(new Error('the last one fails')));
    await failureOf(new MultiLock([...locks, last]).acquire());
    expect(taken).toEqual(['Z', 'a', 'a/b', 'b', 'é', '\uffee', '\u{1f600}']);
  });

  it('stops at the first failure and releases the locks that it had acquired', async () => {
    const [a, b, c] = paths('stop');
    const [client, other] = await Promise.all([connect(), connect()]);
    const held = await new Mutex(other, b).acquire();
    const multi = new MultiLock(mutexes(client, [a, b, c]));
    await expect(multi.acquire({ wait: 0 })).rejects.toThrow(LockBusyError);
    await untilNodes(client, a, 0);
    expect(await client.exists(c)).toBeUndefined();
    await held.release();
    await (await multi.acquire({ wait: 0 })).release();
  });

  it.each([{}, { wait: 0 }])(
    'rejects only after the release of the locks that it had acquired: %o',
    async (options) => {
      let released = false;
      const release = async () => {
        await delay(20);
        released = true;
      };
      const last = stub('/b', () => Promise.reject(new Error('the last one fails')));
      const multi = new MultiLock([stub('/a', async () => ({ release })), last]);
      await failureOf(multi.acquire(options));
      expect(released).toBe(true);
    },
  );

  it('names the locks in its timeout error when the first lock used up the wait', async () => {
    const [a, b] = paths('no-time-left');
    const [client, other] = await Promise.all([connect(), connect()]);
    const held = await new Semaphore(other, b, { permits: 1 }).acquire();
    const slow = stub(a, async () => {
      await delay(20);
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
      await expect(multi.acquire()).rejects.toThrow(SelfDeadlockError);
      expect(outer.held).toBe(true);
    });
    await untilNothingLeft(server, client, ...all);
  });

  it('gets an error when one of the locks is not reentrant, keeps its leases, and releases them when its callback throws', async () => {
    const [a, b] = paths('strict');
    const client = await connect();
    const multi = new MultiLock([new Mutex(client, a), new NonReentrantMutex(client, b)]);
    const failure = new Error('the order is wrong');
    const visit = multi.withLock(async (lease) => {
      await expect(multi.withLock(() => 'never')).rejects.toThrow(SelfDeadlockError);
      expect(lease.held).toBe(true);
      expect(await nodesUnder(client, a)).toHaveLength(1);
      throw failure;
    });
    await expect(visit).rejects.toBe(failure);
    await untilNothingLeft(server, client, a, `${b}/locks`, `${b}/leases`);
  });
});

describe('the lease of a multi-lock', () => {
  it('is lost with the first of its leases', async () => {
    const [a, b] = paths('lost');
    const [one, two] = await Promise.all([connect(), connect()]);
    const lease = await new MultiLock([new Mutex(one, a), new Mutex(two, b)]).acquire();
    await expire(two, server);
    expect(await aborted(lease.signal)).toBeInstanceOf(LeaseLostError);
    expect(lease.held).toBe(false);
    expect(lease.leases.map(({ held }) => held)).toEqual([true, false]);
    await lease.release();
    await untilNothingLeft(server, one, a, b);
  });

  it('is granted only while all of its leases are held', async () => {
    const [a, b] = paths('lost-meanwhile');
    const [one, two] = await Promise.all([connect(), connect()]);
    const held = await new Mutex(two, b).acquire();
    const acquiring = new MultiLock([new Mutex(one, a), new Mutex(two, b)]).acquire();
    await untilNodes(two, a, 1);
    const session = await one.session();
    await expire(one, server);
    await expect.poll(() => session.alive).toBe(false);
    await held.release();
    const lease = await acquiring;
    expect(lease.held).toBe(true);
    await lease.release();
  });

  it('receives a revocation request made for any of its locks', async () => {
    const [a, b] = paths('revoked');
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
});
