import {
  BadOptionError,
  currentLease,
  RecipeConflictError,
  type Lease,
  LeaseLostError,
  LockBusyError,
  LockRevokedError,
  LockService,
  LockTimeoutError,
  SelfDeadlockError,
  ShuttingDownError,
} from 'nestjs-zookeeper';
import { describe, expect, it, vi } from 'vitest';
import { aborted } from '../../support/clients.js';
import { eventually } from '../../support/eventually.js';
import { Gate, untilQueued, useApps } from '../../support/nest-apps.js';
import { useServer } from '../../support/servers.js';

const zk = useServer();
const apps = useApps(zk);

/** The lock services of two applications in one namespace. */
async function two() {
  const [one, other] = await Promise.all([apps.start({}), apps.start({})]);
  return { app: one, client: one.client, one: one.get(LockService), other: other.get(LockService) };
}

const reading = { mode: 'read', wait: 0 } as const;
const writing = { mode: 'write', wait: 0 } as const;

describe('a lock for readers and writers', () => {
  it('admits many readers in all applications at once, and no writer beside them', async () => {
    const { one, other } = await two();
    await using _first = await one.acquire('stock', reading);
    await using _second = await other.acquire('stock', reading);
    await expect(other.acquire('stock', writing)).rejects.toThrow(LockBusyError);
    expect(await one.tryAcquire('stock', { mode: 'write' })).toBeUndefined();
  });

  it('admits one writer, and no reader beside it', async () => {
    const { one, other } = await two();
    await using _writer = await one.acquire('stock', writing);
    await expect(other.acquire('stock', reading)).rejects.toThrow(LockBusyError);
    await expect(other.acquire('stock', writing)).rejects.toThrow(LockBusyError);
  });

  it('lets a writer read, and rejects a reader that wants to write', async () => {
    const { one } = await two();
    await one.withLock('stock', writing, async () => {
      expect(await one.withLock('stock', reading, () => 'both')).toBe('both');
    });
    await one.withLock('stock', reading, async () => {
      await expect(one.withLock('stock', writing, () => {})).rejects.toThrow(SelfDeadlockError);
    });
  });

  it('cannot be mixed with an exclusive lock of the same key: the later caller gets an error', async () => {
    const { one, other } = await two();
    await using _lease = await one.acquire('stock');
    for (const mode of ['read', 'write'] as const) {
      const late = other.acquire('stock', { mode, wait: 0 });
      await expect(late).rejects.toThrow(RecipeConflictError);
      await expect(late).rejects.toThrow(/either exclusively, or with mode 'read' and 'write'/);
    }
    await expect(other.participants('stock', { mode: 'read' })).rejects.toThrow(
      RecipeConflictError,
    );
    await using _read = await other.acquire('goods', { mode: 'read' });
    await expect(one.withLock('goods', { wait: 0 }, () => {})).rejects.toThrow(RecipeConflictError);
  });

  it('can be re-entered during a shutdown, also to read as the writer', async () => {
    const { app, one } = await two();
    const gate = new Gate();
    const holding = one.withLock('stock', writing, async () => {
      await gate.pass();
      return one.withLock('stock', reading, () => 'entered');
    });
    await gate.reached;
    const closed = app.close();
    await eventually(() => expect(one.acquire('other')).rejects.toThrow(ShuttingDownError));
    gate.open();
    expect(await holding).toBe('entered');
    await closed;
  });
});

describe('a list of keys', () => {
  it('is locked as a whole, with a lease for each key', async () => {
    const { one, other } = await two();
    await one.withLock(['stock', 'orders'], async (lease) => {
      expect(lease.held).toBe(true);
      expect(lease.leases.map(({ key }) => key)).toEqual(['stock', 'orders']);
      expect(currentLease()).toBe(lease);
      expect(currentLease('stock')).toBe(lease.leases[0]);
      expect(currentLease('orders')).toBe(lease.leases[1]);
      expect(one.held('stock') && one.held('orders')).toBe(true);
      for (const key of ['stock', 'orders']) expect(await other.tryAcquire(key)).toBeUndefined();
    });
    await using _both = await other.acquire(['orders', 'stock'], { wait: 0 });
    expect(currentLease()).toBeUndefined();
  });

  it('is locked completely or not at all', async () => {
    const { client, one, other } = await two();
    await using _lease = await other.acquire('b');
    expect(await one.tryAcquire(['a', 'b', 'c'])).toBeUndefined();
    await expect(one.acquire(['a', 'b'], { wait: 30 })).rejects.toThrow(LockTimeoutError);
    await expect(one.acquire(['a', 'b'], { wait: 0 })).rejects.toMatchObject({
      code: 'BUSY',
      key: 'b',
    });
    await using _free = await other.acquire(['a', 'c'], { wait: 0 });
    await untilQueued(client, 'b', 1);
  });

  it('keeps none of its locks for holdAtLeast unless it acquired them all', async () => {
    const { one, other } = await two();
    await using _lease = await other.acquire('b');
    expect(await one.tryAcquire(['a', 'b'], { holdAtLeast: 60_000 })).toBeUndefined();
    await using _free = await other.acquire('a', { wait: 30_000 });
  });

  it('never deadlocks, in any order of the keys', async () => {
    const { one, other } = await two();
    let sold = 0;
    await Promise.all(
      Array.from({ length: 20 }, (_, i) =>
        i % 2
          ? one.withLock(['a', 'b'], async () => void sold++)
          : other.withLock(['b', 'a'], async () => void sold++),
      ),
    );
    expect(sold).toBe(20);
  });

  it('can be re-entered, completely and in part', async () => {
    const { one } = await two();
    await one.withLock(['a', 'b'], async () => {
      expect(await one.withLock('b', { wait: 0 }, () => 'part')).toBe('part');
      expect(await one.withLock(['b', 'a'], { wait: 0 }, () => 'whole')).toBe('whole');
      expect(
        await one.withLock(['a', 'c'], { wait: 0 }, (lease) => [
          lease.held,
          currentLease('b')?.held,
        ]),
      ).toEqual([true, true]);
      await expect(one.acquire(['b', 'c'])).rejects.toThrow(SelfDeadlockError);
    });
    expect(['a', 'b', 'c'].map((key) => one.held(key))).toEqual([false, false, false]);
  });

  it('can be locked to read or to write', async () => {
    const { one, other } = await two();
    await using _first = await one.acquire(['a', 'b'], reading);
    await using second = await other.acquire(['a', 'b'], reading);
    expect(second.leases).toHaveLength(2);
    expect(await other.tryAcquire(['b', 'c'], { mode: 'write' })).toBeUndefined();
  });

  it('is released when a shutdown has waited for it', async () => {
    const { app, one, other } = await two();
    const lease = await one.acquire(['a', 'b']);
    const closed = app.close();
    const waiting = other.acquire(['a', 'b']);
    await lease.release();
    await Promise.all([closed, (await waiting).release()]);
  });

  it('may contain keys that differ only in what is encoded', async () => {
    const { one } = await two();
    await using lease = await one.acquire(['a/b', 'a%2Fb'], { wait: 0 });
    expect(lease.held).toBe(true);
  });

  it.each<[string, unknown, object, RegExp]>([
    ['no keys', [], {}, /key must be at least one key/],
    ['a key twice', ['a', 'b', 'a'], {}, /key "a" appears twice in the list/],
    ['an empty key', ['a', ''], {}, /key must be a non-empty string/],
    ['one path for several keys', ['a', 'b'], { path: '/x' }, /path must be left out/],
  ])('is rejected with %s', async (_, keys, options, message) => {
    const { one } = await two();
    const key = keys as string[];
    for (const attempt of [
      one.acquire(key, options),
      one.tryAcquire(key, options),
      one.withLock(key, options, () => {}),
    ]) {
      await expect(attempt).rejects.toThrow(BadOptionError);
      await expect(attempt).rejects.toThrow(message);
    }
  });
});

describe('a lease with holdAtMost or holdAtLeast', () => {
  it('is lost after holdAtMost, and the next waiter gets the lock', async () => {
    const { one, other } = await two();
    await using lease = await one.acquire('stock', { holdAtMost: 50 });
    const next = other.acquire('stock', { wait: 60_000 });
    const reason = await aborted(lease.signal);
    expect(reason).toBeInstanceOf(LeaseLostError);
    expect((reason as Error).message).toMatch(/50 ms, its holdAtMost/);
    await using second = await next;
    expect([lease.held, second.held]).toEqual([false, true]);
  });

  it("is lost after the module's default, unless the call sets a longer time", async () => {
    const app = await apps.start({}, { defaults: { holdAtMost: 50 } });
    const locks = app.get(LockService);
    await using short = await locks.acquire('short');
    await using long = await locks.acquire('long', { holdAtMost: Infinity });
    await aborted(short.signal);
    expect(long.held).toBe(true);
  });

  it('keeps the lock for holdAtLeast, however early it is released', async () => {
    const { one, other } = await two();
    const started = performance.now();
    await one.withLock('job', { holdAtLeast: 1_000 }, () => {});
    expect(one.held('job')).toBe(false);
    await using _lease = await other.acquire('job', { wait: 60_000 });
    expect(performance.now() - started).toBeGreaterThan(980);
  });

  it('with several keys counts both times from the grant of the last lock', async () => {
    const { client, one, other } = await two();
    const b = await other.acquire('b');
    const acquiring = one.acquire(['a', 'b'], { holdAtMost: 100 });
    await untilQueued(client, 'b', 2);
    await aborted(AbortSignal.timeout(150));
    await b.release();
    await using lease = await acquiring;
    expect(lease.held).toBe(true);
    await Promise.all(lease.leases.map(({ signal }) => aborted(signal)));
    expect(one.held('a') || one.held('b')).toBe(false);
  });

  it.each<[object, RegExp]>([
    [{ holdAtMost: 0 }, /holdAtMost.*1 or more.*0/],
    [{ holdAtMost: '5s' }, /holdAtMost.*"5s"/],
    [{ holdAtLeast: -1 }, /holdAtLeast.*-1/],
    [{ holdAtLeast: 10, holdAtMost: 5 }, /holdAtLeast.*than holdAtMost/],
    [{ mode: 'shared' }, /mode.*'exclusive', 'read' or 'write'.*"shared"/],
    [{ onRevoke: 'release' }, /onRevoke.*a function.*"release"/],
    [{ details: 'me' }, /details.*"me"/],
    [{ details: { name: 5 } }, /details\.name.*5/],
    [{ details: { data: 5n } }, /details\.data.*JSON.*5n/],
  ])('is rejected with %o', async (options, message) => {
    const { one } = await two();
    await expect(one.acquire('stock', options)).rejects.toThrow(BadOptionError);
    await expect(one.acquire('stock', options)).rejects.toThrow(message);
  });
});

describe('LockService.participants', () => {
  it('lists the holders and the waiters in order, with their details', async () => {
    const waiting = await apps.start({}, { defaults: { details: { name: 'orders' } } });
    const { client, one } = await two();
    await using _lease = await one.acquire('stock', { details: { text: 'counting', data: [1] } });
    const next = waiting.get(LockService).acquire('stock', { details: { text: 'selling' } });
    await untilQueued(client, 'stock', 2);
    const seen = await one.participants('stock');
    expect(seen).toMatchObject([
      { state: 'holding', mode: 'exclusive', details: { text: 'counting', data: [1] } },
      { state: 'waiting', pid: process.pid, details: { name: 'orders', text: 'selling' } },
    ]);
    expect(seen[0]!.since).toBeInstanceOf(Date);
    await _lease.release();
    await (await next).release();
    expect(await one.participants('stock')).toEqual([]);
  });

  it('lists the readers and the writers of a key', async () => {
    const { client, one, other } = await two();
    await using lease = await one.acquire('stock', reading);
    const write = other.acquire('stock', { mode: 'write' });
    await untilQueued(client, 'stock', 2);
    expect(await one.participants('stock', { mode: 'read' })).toMatchObject([
      { state: 'holding', mode: 'read' },
      { state: 'waiting', mode: 'write' },
    ]);
    await lease.release();
    await (await write).release();
  });

  it('lists a lock at an exact path, and rejects unknown options', async () => {
    const { one } = await two();
    const path = zk.path('exact');
    await using _lease = await one.acquire('stock', { path });
    expect(await one.participants('stock', { path })).toHaveLength(1);
    expect(await one.participants('stock')).toEqual([]);
    await expect(one.participants('')).rejects.toThrow(BadOptionError);
    await expect(one.participants('stock', { wait: 1 } as never)).rejects.toThrow(/wait/);
  });
});

describe('LockService.revoke', () => {
  it('notifies the holder of a key in another application, which releases it', async () => {
    const { one, other } = await two();
    const asked: Lease[] = [];
    const lease = await one.acquire('stock', {
      onRevoke: (held) => {
        asked.push(held);
        void held.release();
      },
    });
    const next = other.acquire('stock', { wait: 60_000 });
    await other.revoke('stock');
    await using _next = await next;
    expect(asked).toEqual([lease]);
    expect(lease.revocation.reason).toBeInstanceOf(LockRevokedError);
  });

  it('is only a request: the holder may keep the lock', async () => {
    const { one, other } = await two();
    await one.withLock('stock', async (lease) => {
      const request = aborted(lease.revocation);
      await other.revoke('stock');
      expect(await request).toBeInstanceOf(LockRevokedError);
      expect(lease.held).toBe(true);
    });
  });

  it('notifies one participant of several', async () => {
    const { one, other } = await two();
    await using first = await one.acquire('stock', reading);
    await using second = await other.acquire('stock', reading);
    const request = aborted(second.revocation);
    const participants = await one.participants('stock', { mode: 'read' });
    await one.revoke(participants[1]!);
    await request;
    expect(first.revocation.aborted).toBe(false);
  });

  it('notifies the holder of several keys through any of them', async () => {
    const { one, other } = await two();
    let asked: Lease | undefined;
    await one.withLock(['a', 'b'], { onRevoke: (lease) => void (asked = lease) }, async (lease) => {
      const request = aborted(lease.revocation);
      await other.revoke('b');
      await request;
      expect(asked).toBe(lease);
    });
  });

  it('notifies a re-entered call as long as it runs', async () => {
    const { one, other } = await two();
    const asked: string[] = [];
    const listening = (name: string) => ({ onRevoke: () => void asked.push(name) });
    await one.withLock('stock', listening('outer'), async (lease) => {
      await one.withLock('stock', listening('over'), () => {});
      await one.withLock('stock', listening('inner'), async () => {
        const request = aborted(lease.revocation);
        await other.revoke('stock');
        await request;
      });
    });
    expect(asked).toEqual(['outer', 'inner']);
  });

  const error = new Error('no');
  it.each<[string, () => void | Promise<void>]>([
    [
      'throws',
      () => {
        throw error;
      },
    ],
    ['rejects', () => Promise.reject(error)],
  ])('reports a listener that %s as a process warning, and continues', async (_how, onRevoke) => {
    const { one, other } = await two();
    const warned = vi.spyOn(process, 'emitWarning').mockImplementation(() => {});
    await one.withLock('stock', { onRevoke }, async (lease) => {
      await other.revoke('stock');
      await expect.poll(() => warned.mock.calls).toEqual([[error]]);
      expect(lease.held).toBe(true);
    });
    warned.mockRestore();
  });

  it('resolves if no caller holds the key', async () => {
    const { one } = await two();
    await expect(one.revoke('stock')).resolves.toBeUndefined();
    await expect(one.revoke({} as never)).rejects.toThrow(BadOptionError);
  });
});
