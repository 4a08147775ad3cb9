import {
  BadOptionError,
  currentLease,
  LockBusyError,
  LockService,
  LockTimeoutError,
  Mutex,
  SelfDeadlockError,
  WaitCancelledError,
} from 'nestjs-zookeeper';
import { of } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { eventually } from '../../support/eventually.js';
import { Gate, loseSession, untilQueued, useApps } from '../../support/nest-apps.js';
import { useServer } from '../../support/servers.js';

const zk = useServer();
const apps = useApps(zk);

/** The lock services of two applications in one namespace. */
async function two() {
  const [one, other] = await Promise.all([apps.start({}), apps.start({})]);
  return { client: one.client, one: one.get(LockService), other: other.get(LockService) };
}

describe('LockService.withLock', () => {
  it('runs one call at a time in all applications together', async () => {
    const { one, other } = await two();
    let running = 0;
    let most = 0;
    const work = async () => {
      most = Math.max(most, ++running);
      await new Promise(setImmediate);
      running--;
    };
    await Promise.all(
      Array.from({ length: 20 }, (_, i) => (i % 2 ? one : other).withLock('stock', work)),
    );
    expect(most).toBe(1);
  });

  it('passes the lease to the function, and its result to the caller', async () => {
    const { one } = await two();
    const result = await one.withLock('stock', { wait: 30_000 }, (lease) => {
      expect(lease).toMatchObject({ key: 'stock', held: true });
      expect(lease.fencingToken).toBeGreaterThan(0n);
      expect(currentLease('stock')).toBe(lease);
      return 'sold';
    });
    expect(result).toBe('sold');
    expect(currentLease()).toBeUndefined();
  });

  it('passes on an error of the function unchanged, and releases', async () => {
    const { one, other } = await two();
    const error = new Error('sold out');
    await expect(
      one.withLock('stock', () => {
        throw error;
      }),
    ).rejects.toBe(error);
    await expect(other.withLock('stock', { wait: 0 }, () => 'free')).resolves.toBe('free');
  });

  it('re-enters, unless reentrant is false', async () => {
    const { one } = await two();
    await one.withLock('stock', async () => {
      expect(await one.withLock('stock', { wait: 0 }, () => 'inner')).toBe('inner');
      await expect(one.withLock('stock', { reentrant: false }, () => {})).rejects.toThrow(
        SelfDeadlockError,
      );
    });
  });
});

describe('a lock that is held elsewhere', () => {
  it('rejects a call with wait: 0 as busy', async () => {
    const { one, other } = await two();
    await using _lease = await one.acquire('stock');
    await expect(other.withLock('stock', { wait: 0 }, () => {})).rejects.toThrow(LockBusyError);
    await expect(other.acquire('stock', { wait: 0 })).rejects.toMatchObject({ key: 'stock' });
    expect(await other.tryAcquire('stock')).toBeUndefined();
    expect(await other.tryAcquire('stock', { wait: 20 })).toBeUndefined();
  });

  it('rejects a waiter at its timeout', async () => {
    const { one, other } = await two();
    await using _lease = await one.acquire('stock');
    await expect(other.acquire('stock', { wait: 20 })).rejects.toThrow(LockTimeoutError);
  });

  it("rejects a waiter at the module's default timeout", async () => {
    const app = await apps.start({}, { defaults: { wait: 0 } });
    const { one } = await two();
    await using _lease = await one.acquire('stock');
    await expect(app.get(LockService).acquire('stock')).rejects.toThrow(LockBusyError);
  });

  it('is waited for until the signal aborts, which also removes the znode', async () => {
    const { client, one, other } = await two();
    await using _lease = await one.acquire('stock');
    const controller = new AbortController();
    const waiting = other.acquire('stock', { signal: controller.signal });
    await untilQueued(client, 'stock', 2);
    controller.abort(new Error('enough'));
    await expect(waiting).rejects.toThrow(WaitCancelledError);
    await expect(waiting).rejects.toMatchObject({ cause: { message: 'enough' } });
    await untilQueued(client, 'stock', 1);
  });

  it('rejects at once if the signal has already aborted', async () => {
    const { one } = await two();
    await expect(one.acquire('stock', { signal: AbortSignal.abort() })).rejects.toThrow(
      WaitCancelledError,
    );
  });

  it('is granted to the waiter when it is released', async () => {
    const { client, one, other } = await two();
    const first = await one.acquire('stock');
    const waiting = other.acquire('stock');
    await untilQueued(client, 'stock', 2);
    await first.release();
    await using second = await waiting;
    expect(first.held).toBe(false);
    expect(second.fencingToken).toBeGreaterThan(first.fencingToken);
  });
});

describe('LockService', () => {
  it('reports with held() whether this process holds a key', async () => {
    const { one, other } = await two();
    expect(one.held('stock')).toBe(false);
    const lease = await one.acquire('stock');
    expect([one.held('stock'), one.held('other'), other.held('stock')]).toEqual([
      true,
      false,
      false,
    ]);
    // held() cannot distinguish the modes.
    expect(() => one.held('stock', { mode: 'read' } as object)).toThrow(/unknown option mode/);
    await lease.release();
    await lease.release();
    expect(one.held('stock')).toBe(false);
  });

  it('rejects a call that would wait for its own call chain', async () => {
    const { one } = await two();
    await one.withLock('stock', async () => {
      await expect(one.acquire('stock')).rejects.toThrow(SelfDeadlockError);
    });
  });

  it('excludes a Mutex on the same exact path', async () => {
    const { client, one } = await two();
    const path = zk.path('curator');
    await using _lease = await new Mutex(client, path).acquire();
    await expect(one.acquire('stock', { path, wait: 0 })).rejects.toThrow(LockBusyError);
    await expect(one.acquire('stock', { path: 'relative' })).rejects.toThrow(BadOptionError);
  });

  it('keeps every key below the directory of the locks', async () => {
    const { client, one } = await two();
    const keys = ['../../escape', '..', 'a/b', '商品 42', '🛒', 'a\tb'];
    for (const key of keys) await one.withLock(key, () => {});
    await using _lease = await one.acquire('../../escape');
    const { children } = await client.children(`${client.namespace}/locks`);
    expect(children).toContain('..%2F..%2Fescape');
    expect((await client.children(client.namespace)).children).toEqual(['locks']);
  });

  it.each<[string, unknown[]]>([
    ['an empty key', ['']],
    ['a key with a NUL', ['a\0b']],
    ['a key of another type', [42]],
    ['a negative wait', ['stock', { wait: -1 }]],
    ['a wait that is not a number', ['stock', { wait: '5' }]],
    ['NaN as a wait', ['stock', { wait: Number.NaN }]],
    ['an unknown option', ['stock', { wiat: 5 }]],
    ['options that are not an object', ['stock', 5]],
    ['a signal that is not an AbortSignal', ['stock', { signal: 'stop' }]],
    ['reentrant of another type', ['stock', { reentrant: 'no' }]],
  ])('refuses %s', async (_, args) => {
    const { one } = await two();
    const [key, options = {}] = args as [string, object];
    await expect(one.acquire(key, options)).rejects.toThrow(BadOptionError);
    await expect(one.tryAcquire(key, options)).rejects.toThrow(BadOptionError);
    await expect(one.withLock(key, options, () => {})).rejects.toThrow(BadOptionError);
  });

  it('rejects withLock() without a function', async () => {
    const { one } = await two();
    await expect(one.withLock('stock', {} as never)).rejects.toThrow(/fn must be a function/);
  });

  it.each<[string, () => unknown]>([
    ['an Observable', () => of(1)],
    ['a promise of an Observable', async () => of(1)],
    ['a generator', async function* () {}],
  ])('rejects %s, which would begin without the lock', async (_, fn) => {
    const { one } = await two();
    await expect(one.withLock('stock', fn)).rejects.toThrow(/result of fn must be no Observable/);
    expect(one.held('stock')).toBe(false);
  });

  it('keeps no memory of released locks', async () => {
    const { one } = await two();
    const gate = new Gate();
    const holding = one.withLock('held', () => gate.pass());
    await gate.reached;
    for (let i = 0; i < 20; i++) await one.withLock(`key-${i}`, () => {});
    const { leases, pending } = (
      one as unknown as { tracker: { leases: Set<unknown>; pending: Set<unknown> } }
    ).tracker;
    expect([leases.size, pending.size]).toEqual([1, 0]);
    gate.open();
    await holding;
    expect(leases.size).toBe(0);
  });

  it('keeps no memory of a lost lease that is never released', async () => {
    const { client, one } = await two();
    const lease = await one.acquire('stock');
    await loseSession(zk, client);
    expect([lease.held, one.held('stock')]).toEqual([false, false]);
    const { leases } = (one as unknown as { tracker: { leases: Set<unknown> } }).tracker;
    await eventually(() => expect(leases.size).toBe(0));
  });
});
