import { AsyncResource } from 'node:async_hooks';
import { describe, expect, it } from 'vitest';
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
} from 'nestjs-zookeeper/recipes';
import { useClients } from '../../support/clients.js';
import { useServer } from '../../support/servers.js';

const server = useServer();
const connect = useClients(server);

describe('a call chain that holds the mutex', () => {
  it('re-enters without a new node, and holds the lock until its outermost call ends', async () => {
    const path = server.path('again');
    const client = await connect();
    const mutex = new Mutex(client, path);
    await mutex.withLock(async (outer) => {
      await mutex.withLock(async (inner) => {
        expect(inner.fencingToken).toBe(outer.fencingToken);
        expect((await client.children(path)).children).toHaveLength(1);
      });
      expect(outer.held).toBe(true);
      await expect(runDetached(() => new Mutex(client, path).acquire({ wait: 0 }))).rejects.toThrow(
        LockBusyError,
      );
    });
    await new Mutex(client, path).withLock(() => undefined, { wait: 0 });
  });

  it('does not re-enter a lock that may have been lost during a pause', async () => {
    const client = await connect({ sessionTimeout: 1_000 });
    const mutex = new Mutex(client, server.path('paused'));
    let entered = false;
    const outer = mutex.withLock(async () => {
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 800);
      // The first code after the pause: no event has reported the loss yet.
      await mutex.withLock(() => void (entered = true));
    });
    await expect(outer).rejects.toThrow(LeaseLostError);
    expect(entered).toBe(false);
  });

  it('gets an error from acquire(), which would wait for its own chain', async () => {
    const path = server.path('acquire');
    const mutex = new Mutex(await connect(), path);
    await mutex.withLock(async () => {
      await expect(mutex.acquire()).rejects.toThrow(SelfDeadlockError);
    });
  });

  it('gets an error when the mutex is not reentrant', async () => {
    const path = server.path('strict');
    const mutex = new Mutex(await connect(), path, { reentrant: false });
    await mutex.withLock(async () => {
      await expect(mutex.withLock(() => 'never')).rejects.toThrow(SelfDeadlockError);
    });
  });

  it('excludes another call chain of the same process', async () => {
    const path = server.path('chains');
    const mutex = new Mutex(await connect(), path);
    const order: string[] = [];
    await Promise.all(
      ['a', 'b'].map((name) =>
        mutex.withLock(async () => {
          order.push(`${name} in`);
          await new Promise(setImmediate);
          order.push(`${name} out`);
        }),
      ),
    );
    expect(order).toEqual(['a in', 'a out', 'b in', 'b out']);
  });

  it('admits its own parallel branches together, and holds the lock until the last one ends', async () => {
    const path = server.path('branches');
    const client = await connect();
    const mutex = new Mutex(client, path);
    let finish!: () => void;
    let branch!: Promise<void>;
    await mutex.withLock(() => {
      branch = mutex.withLock(() => new Promise<void>((resolve) => (finish = resolve)));
    });
    await expect(new Mutex(client, path).acquire({ wait: 0 })).rejects.toThrow(LockBusyError);
    finish();
    await branch;
    await new Mutex(client, path).withLock(() => undefined, { wait: 0 });
  });

  it('holds nothing after its lease is released, even if it continues to run', async () => {
    const path = server.path('outlives');
    const mutex = new Mutex(await connect(), path);
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
    const mutex = new Mutex(await connect(), path);
    let lazy!: AsyncResource;
    let detached!: AsyncResource;
    await mutex.withLock(async () => {
      lazy = new AsyncResource('pool');
      detached = runDetached(() => new AsyncResource('pool'));
      expect(lazy.runInAsyncScope(() => currentLease()?.path)).toBe(path);
      expect(detached.runInAsyncScope(() => currentLease())).toBeUndefined();
    });
    expect(lazy.runInAsyncScope(() => currentLease())).toBeUndefined();
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

describe('currentLease', () => {
  it('returns the innermost lease, or the innermost lease of a key', async () => {
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
  });
});
