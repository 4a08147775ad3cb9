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
import { describe, expect, vi } from 'vitest';
import { aborted } from '../../support/clients.js';
import { eventually } from '../../support/eventually.js';
import { Gate, untilQueued, useApps } from '../../support/nest-apps.js';
import { useServer } from '../../support/servers.js';
import { it } from '../../support/virtual-time.js';

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
  it('admits many readers in all applications at once, or one writer, which may read', async () => {
    const { one, other } = await two();
    const readers = [await one.acquire('stock', reading), await other.acquire('stock', reading)];
    await expect(other.acquire('stock', writing)).rejects.toThrow(LockBusyError);
    expect(await one.tryAcquire(['stock', 'more'], { mode: 'write' })).toBeUndefined();
    for (const reader of readers) await reader.release();
    await one.withLock('stock', writing, async () => {
      expect(await one.withLock('stock', reading, () => 'both')).toBe('both');
      await expect(other.acquire('stock', reading)).rejects.toThrow(LockBusyError);
      await expect(other.acquire('stock', writing)).rejects.toThrow(LockBusyError);
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
    await one.withLock(['stock', 'a/b', 'a%2Fb'], async (lease) => {
      expect(lease.held).toBe(true);
      expect(lease.leases.map(({ key }) => key)).toEqual(['stock', 'a/b', 'a%2Fb']);
      expect(currentLease()).toBe(lease);
      expect(currentLease('stock')).toBe(lease.leases[0]);
      expect(currentLease('a/b')).toBe(lease.leases[1]);
      expect(one.held('stock') && one.held('a/b')).toBe(true);
      for (const key of ['stock', 'a/b']) expect(await other.tryAcquire(key)).toBeUndefined();
    });
    await using _both = await other.acquire(['a/b', 'stock'], { wait: 0 });
    expect(currentLease()).toBeUndefined();
  });

  it('is locked completely or not at all, and keeps none of its locks for holdAtLeast in the second case', async () => {
    const { client, one, other } = await two();
    await using _lease = await other.acquire('b');
    expect(await one.tryAcquire(['a', 'b', 'c'], { holdAtLeast: 60_000 })).toBeUndefined();
    await expect(one.acquire(['a', 'b'], { wait: 30 })).rejects.toThrow(LockTimeoutError);
    await expect(one.acquire(['a', 'b'], { wait: 0 })).rejects.toMatchObject({
      code: 'BUSY',
      key: 'b',
    });
    await using _free = await other.acquire(['a', 'c'], { wait: 0 });
    await untilQueued(client, 'b', 1);
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

  it('is released when a shutdown has waited for it', async () => {
    const { app, one, other } = await two();
    const lease = await one.acquire(['a', 'b']);
    const closed = app.close();
    const waiting = other.acquire(['a', 'b']);
    await lease.release();
    await Promise.all([closed, (await waiting).release()]);
  });
});

describe('a lease with holdAtMost or holdAtLeast', () => {
  it("is lost after holdAtMost, or the module's default, and the next waiter gets the lock", async () => {
    const app = await apps.start({}, { defaults: { holdAtMost: 50_000 } });
    const { other } = await two();
    await using lease = await app.get(LockService).acquire('stock');
    await using longer = await app.get(LockService).acquire('long', { holdAtMost: 90_000 });
    const granted = performance.now();
    await using second = await other.acquire('stock');
    expect(performance.now() - granted).toBeGreaterThan(49_900);
    expect(performance.now() - granted).toBeLessThan(50_100);
    expect([lease.held, longer.held, second.held]).toEqual([false, true, true]);
    expect(lease.signal.reason).toBeInstanceOf(LeaseLostError);
    expect((lease.signal.reason as Error).message).toMatch(/50000 ms, its holdAtMost/);
    await aborted(longer.signal);
    expect(Math.abs(performance.now() - granted - 90_000)).toBeLessThan(100);
  });

  it('keeps the lock for holdAtLeast, however early it is released', async () => {
    const { one, other } = await two();
    const started = performance.now();
    await one.withLock('job', { holdAtLeast: 10_000 }, () => {});
    expect(one.held('job')).toBe(false);
    await using _lease = await other.acquire('job', { wait: 60_000 });
    expect(Math.abs(performance.now() - started - 10_000)).toBeLessThan(100);
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
});

it.each<[unknown, object, RegExp]>([
  ['', {}, /key must be a non-empty string/],
  ['a\0b', {}, /key.*NUL/],
  [42, {}, /key.*42/],
  ['stock', { wait: -1 }, /wait.*-1/],
  ['stock', { wait: '5' }, /wait.*"5"/],
  ['stock', { wait: Number.NaN }, /wait.*NaN/],
  ['stock', { wiat: 5 }, /unknown option wiat/],
  ['stock', 5 as never, /options.*5/],
  ['stock', { signal: 'stop' }, /signal.*"stop"/],
  ['stock', { reentrant: 'no' }, /reentrant.*"no"/],
  [[], {}, /key must be at least one key/],
  [['a', 'b', 'a'], {}, /key "a" appears twice in the list/],
  [['a', ''], {}, /key must be a non-empty string/],
  [['a', 'b'], { path: '/x' }, /path must be left out/],
  ['stock', { holdAtMost: 0 }, /holdAtMost.*1 or more.*0/],
  ['stock', { holdAtMost: '5s' }, /holdAtMost.*"5s"/],
  ['stock', { holdAtLeast: -1 }, /holdAtLeast.*-1/],
  ['stock', { holdAtLeast: 10, holdAtMost: 5 }, /holdAtLeast.*than holdAtMost/],
  ['stock', { mode: 'shared' }, /mode.*'exclusive', 'read' or 'write'.*"shared"/],
  ['stock', { onRevoke: 'release' }, /onRevoke.*a function.*"release"/],
  ['stock', { details: 'me' }, /details.*"me"/],
  ['stock', { details: { name: 5 } }, /details\.name.*5/],
  ['stock', { details: { data: 5n } }, /details\.data.*JSON.*5n/],
])('a request for %j with %o is rejected', async (keys, options, message) => {
  const locks = (await apps.start({})).get(LockService);
  const key = keys as string[];
  for (const attempt of [
    locks.acquire(key, options),
    locks.tryAcquire(key, options),
    locks.withLock(key, options, () => {}),
  ]) {
    await expect(attempt).rejects.toThrow(BadOptionError);
    await expect(attempt).rejects.toThrow(message);
  }
});

describe('LockService.participants', () => {
  it('lists the holders and the waiters in order, with their modes and details', async () => {
    const waiting = await apps.start({}, { defaults: { details: { name: 'orders' } } });
    const { client, one } = await two();
    await using lease = await one.acquire('stock', {
      ...reading,
      details: { text: 'counting', data: [1] },
    });
    const next = waiting
      .get(LockService)
      .acquire('stock', { mode: 'write', details: { text: 'selling' } });
    await untilQueued(client, 'stock', 2);
    const seen = await one.participants('stock', { mode: 'read' });
    expect(seen).toMatchObject([
      { state: 'holding', mode: 'read', details: { text: 'counting', data: [1] } },
      {
        state: 'waiting',
        mode: 'write',
        pid: process.pid,
        details: { name: 'orders', text: 'selling' },
      },
    ]);
    expect(seen[0]!.since).toBeInstanceOf(Date);
    await lease.release();
    await (await next).release();
    expect(await one.participants('stock', { mode: 'read' })).toEqual([]);
  });

  it('lists a lock at an exact path, and rejects unknown options', async () => {
    const { one } = await two();
    const path = zk.path('exact');
    await using _lease = await one.acquire('stock', { path });
    expect(await one.participants('stock', { path })).toMatchObject([{ mode: 'exclusive' }]);
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

  it('notifies a re-entered call as long as it runs, and the holder may keep the lock', async () => {
    const { one, other } = await two();
    const asked: string[] = [];
    const listening = (name: string) => ({ onRevoke: () => void asked.push(name) });
    await one.withLock('stock', listening('outer'), async (lease) => {
      await one.withLock('stock', listening('over'), () => {});
      await one.withLock('stock', listening('inner'), async () => {
        const request = aborted(lease.revocation);
        await other.revoke('stock');
        await request;
        expect(lease.held).toBe(true);
      });
    });
    expect(asked).toEqual(['outer', 'inner']);
  });

  it('reports a listener that throws or rejects as a process warning, and continues', async () => {
    const { one, other } = await two();
    const errors = [new Error('thrown'), new Error('rejected')];
    const warned = vi.spyOn(process, 'emitWarning').mockImplementation(() => {});
    const listeners = [
      () => {
        throw errors[0]!;
      },
      () => Promise.reject(errors[1]!),
    ];
    for (const [index, onRevoke] of listeners.entries()) {
      await one.withLock('stock', { onRevoke }, async (lease) => {
        await other.revoke('stock');
        await expect.poll(() => warned.mock.calls[index]).toEqual([errors[index]]);
        expect(lease.held).toBe(true);
      });
    }
    warned.mockRestore();
  });

  it('resolves if no caller holds the key', async () => {
    const { one } = await two();
    await expect(one.revoke('stock')).resolves.toBeUndefined();
    await expect(one.revoke({} as never)).rejects.toThrow(BadOptionError);
  });
});
