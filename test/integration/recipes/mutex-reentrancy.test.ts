import { AsyncResource } from 'node:async_hooks';
import { describe, expect } from 'vitest';
import {
  LeaseLostError,
  currentLease,
  type Entry,
  LockBusyError,
  MultiLock,
  Mutex,
  ReadWriteLock,
  runDetached,
  SelfDeadlockError,
  Semaphore,
} from 'nestjs-zookeeper/recipes';
import { useClients } from '../../support/clients.js';
import { nodesUnder } from '../../support/recipe-nodes.js';
import { useServer } from '../../support/servers.js';
import { it, testProcess } from '../../support/virtual-time.js';

const server = useServer();
const connect = useClients(server);

describe('a call chain that holds the mutex', () => {
  it('re-enters by withLock() without a new node, and holds the lock until its outermost call ends', async () => {
    const path = server.path('again');
    const client = await connect();
    const mutex = new Mutex(client, path);
    const strict = new Mutex(client, path, { reentrant: false });
    await mutex.withLock(async (outer) => {
      await mutex.withLock(async (inner) => {
        expect(inner.fencingToken).toBe(outer.fencingToken);
        expect(await nodesUnder(client, path)).toHaveLength(1);
      });
      expect(outer.held).toBe(true);
      await expect(runDetached(() => mutex.acquire({ wait: 0 }))).rejects.toThrow(LockBusyError);
      // Both would wait for their own chain.
      await expect(mutex.acquire()).rejects.toThrow(SelfDeadlockError);
      await expect(strict.withLock(() => 'never')).rejects.toThrow(SelfDeadlockError);
    });
    await mutex.withLock(() => undefined, { wait: 0 });
  });

  it('does not re-enter a lock that may have been lost during a pause', async () => {
    const client = await connect({ sessionTimeout: 1_000 });
    const mutex = new Mutex(client, server.path('paused'));
    let entered = false;
    const outer = mutex.withLock(async () => {
      testProcess().block(800);
      // The first code after the pause: no event has reported the loss yet.
      await mutex.withLock(() => void (entered = true));
    });
    await expect(outer).rejects.toThrow(LeaseLostError);
    expect(entered).toBe(false);
  });

  it('admits its own parallel branches together, and holds the lock until the last one ends', async () => {
    const mutex = new Mutex(await connect(), server.path('branches'));
    let finish!: () => void;
    let branch!: Promise<void>;
    await mutex.withLock(() => {
      branch = mutex.withLock(() => new Promise<void>((resolve) => (finish = resolve)));
    });
    await expect(mutex.acquire({ wait: 0 })).rejects.toThrow(LockBusyError);
    finish();
    await branch;
    await mutex.withLock(() => undefined, { wait: 0 });
  });

  it('holds nothing after its lease is released, even if it continues to run', async () => {
    const mutex = new Mutex(await connect(), server.path('outlives'));
    let goOn!: () => void;
    const released = new Promise<void>((resolve) => (goOn = resolve));
    let later!: Promise<unknown>;
    await mutex.withLock(() => {
      later = released.then(() => {
        expect(currentLease()).toBeUndefined();
        return mutex.withLock((lease) => lease.fencingToken);
      });
    });
    goOn();
    expect(await later).toBeTypeOf('bigint');
  });

  it('passes its lease to a pool that it starts, unless the pool is started with runDetached', async () => {
    const path = server.path('pool');
    await new Mutex(await connect(), path).withLock(async () => {
      const pool = new AsyncResource('pool');
      const detached = runDetached(() => new AsyncResource('pool'));
      expect(pool.runInAsyncScope(() => currentLease()?.path)).toBe(path);
      expect(detached.runInAsyncScope(() => currentLease())).toBeUndefined();
    });
  });
});

describe('an inner lease that was released while the outer lease is held', () => {
  it('gives other call chains no access', async () => {
    const mutex = new Mutex(await connect(), server.path('stale-entry'));
    let finish!: () => void;
    const finished = new Promise<void>((resolve) => (finish = resolve));
    let inside = 0;
    let hand!: (entry: Entry) => void;
    const handed = new Promise<Entry>((resolve) => (hand = resolve));
    const outer = mutex.withLock(async () => {
      inside++;
      const entry = await mutex.enter();
      await entry.release();
      hand(entry);
      await finished;
      inside--;
    });
    const entry = await handed;
    const other = entry.run(() => {
      expect(currentLease()).toBeUndefined();
      return mutex.withLock(() => inside);
    });
    // This is not a re-entry: acquire() does not reject it as one, and a try finds the lock held.
    expect(await entry.run(() => mutex.tryAcquire())).toBeUndefined();
    finish();
    expect(await other).toBe(0);
    await outer;
  });

  it('leaves the outer lease to the chain that holds it', async () => {
    const mutex = new Mutex(await connect(), server.path('outer-entry'));
    await mutex.withLock(async (outer) => {
      const entry = await mutex.enter();
      await entry.release();
      await entry.run(async () => {
        expect(currentLease()).toBe(outer);
        await mutex.withLock(({ fencingToken }) => expect(fencingToken).toBe(outer.fencingToken));
        await expect(mutex.acquire()).rejects.toThrow(SelfDeadlockError);
      });
    });
  });

  it('behaves the same for a multi-lock and a read lock', async () => {
    const client = await connect();
    const path = server.path('stale-multi');
    const { read, write } = new ReadWriteLock(client, path);
    const multi = new MultiLock([read, new Mutex(client, server.path('stale-other'))]);
    const outer = await multi.enter();
    const inner = await outer.run(() => multi.enter());
    await inner.release();
    inner.run(() => expect(currentLease()).toBeUndefined());
    outer.run(() => expect(currentLease()).toBe(outer.lease));
    // Neither a re-entry nor an upgrade of a read lock: an ordinary attempt on a lock that is held.
    expect(await inner.run(() => write.tryAcquire())).toBeUndefined();
    expect(outer.lease.held).toBe(true);
    await outer.release();
  });
});

it('currentLease() returns the innermost lease, or the innermost lease of a key, of a lock rather than of a permit', async () => {
  const client = await connect();
  const outer = new Mutex(client, server.path('outer'), { key: 'outer' });
  const inner = new Mutex(client, server.path('inner'), { key: 'inner' });
  expect(currentLease()).toBeUndefined();
  await outer.withLock(() =>
    inner.withLock(() => {
      expect(currentLease()?.key).toBe('inner');
      expect(currentLease('outer')?.key).toBe('outer');
      expect(currentLease('other')).toBeUndefined();
    }),
  );
  const permits = new Semaphore(client, server.path('permits'), { permits: 1, key: 'outer' });
  const lock = await outer.enter();
  await lock.run(() =>
    permits.withLock((permit) => {
      expect(currentLease()).toBe(permit);
      expect(currentLease('outer')).toBe(lock.lease);
    }),
  );
  await lock.release();
  await permits.withLock((permit) => expect(currentLease('outer')).toBe(permit));
});
