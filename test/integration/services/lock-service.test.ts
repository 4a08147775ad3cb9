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
import { describe, expect } from 'vitest';
import { eventually } from '../../support/eventually.js';
import { Gate, loseSession, untilQueued, useApps } from '../../support/nest-apps.js';
import { useServer } from '../../support/servers.js';
import { it } from '../../support/virtual-time.js';

const zk = useServer();
const apps = useApps(zk);

/** The lock services of two applications in one namespace. */
async function two() {
  const [one, other] = await Promise.all([apps.start({}), apps.start({})]);
  return { client: one.client, one: one.get(LockService), other: other.get(LockService) };
}

describe('LockService.withLock', () => {
  it('passes the lease to the function, and its result or its error to the caller', async () => {
    const { one, other } = await two();
    const result = await one.withLock('stock', { wait: 30_000 }, (lease) => {
      expect(lease).toMatchObject({ key: 'stock', held: true });
      expect(lease.fencingToken).toBeGreaterThan(0n);
      expect(currentLease('stock')).toBe(lease);
      return 'sold';
    });
    expect(result).toBe('sold');
    expect(currentLease()).toBeUndefined();
    const error = new Error('sold out');
    const fails = () => {
      throw error;
    };
    await expect(one.withLock('stock', fails)).rejects.toBe(error);
    await expect(other.withLock('stock', { wait: 0 }, () => 'free')).resolves.toBe('free');
  });

  it('re-enters, unless reentrant is false', async () => {
    const { one } = await two();
    await one.withLock('stock', async () => {
      expect(await one.withLock('stock', { wait: 0 }, () => 'inner')).toBe('inner');
      await expect(one.withLock('stock', { reentrant: false }, () => {})).rejects.toThrow(
        SelfDeadlockError,
      );
      await expect(one.acquire('stock')).rejects.toThrow(SelfDeadlockError);
    });
  });

  it('rejects if there is no function, or if its result would begin without the lock', async () => {
    const { one } = await two();
    await expect(one.withLock('stock', {} as never)).rejects.toThrow(/fn must be a function/);
    const generator = async function* () {};
    for (const fn of [() => of(1), async () => of(1), generator]) {
      await expect(one.withLock('stock', fn as () => unknown)).rejects.toThrow(
        /result of fn must be no Observable/,
      );
      expect(one.held('stock')).toBe(false);
    }
  });
});

describe('a lock that is held elsewhere', () => {
  it('rejects as busy, at the timeout of the call or the module, or if the signal has aborted', async () => {
    const { one, other } = await two();
    await using _lease = await one.acquire('stock');
    await expect(other.withLock('stock', { wait: 0 }, () => {})).rejects.toThrow(LockBusyError);
    await expect(other.acquire('stock', { wait: 0 })).rejects.toMatchObject({ key: 'stock' });
    expect(await other.tryAcquire('stock')).toBeUndefined();
    const started = performance.now();
    expect(await other.tryAcquire('stock', { wait: 20_000 })).toBeUndefined();
    await expect(other.acquire('stock', { wait: 20_000 })).rejects.toThrow(LockTimeoutError);
    expect(Math.abs(performance.now() - started - 40_000)).toBeLessThan(100);
    const app = await apps.start({}, { defaults: { wait: 0 } });
    await expect(app.get(LockService).acquire('stock')).rejects.toThrow(LockBusyError);
    const aborted = other.acquire('stock', { signal: AbortSignal.abort() });
    await expect(aborted).rejects.toThrow(WaitCancelledError);
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
