import {
  BadOptionError,
  currentLease,
  type Lease,
  LeaseLostError,
  LockBusyError,
  LockRevokedError,
  LockService,
  LockTimeoutError,
  RecipeConflictError,
  SelfDeadlockError,
  WaitCancelledError,
  type ZkClient,
} from 'nestjs-zookeeper';
import { Mutex } from 'nestjs-zookeeper/recipes';
import { of } from 'rxjs';
import { describe, expect, vi } from 'vitest';
import { aborted } from '../../support/clients.js';
import { eventually } from '../../support/eventually.js';
import { Gate } from '../../support/gate.js';
import { loseSession, untilQueued, useApps } from '../../support/nest-apps.js';
import { useServer } from '../../support/servers.js';
import { beforeEach, it } from '../../support/virtual-time.js';

const zk = useServer();
const apps = useApps(zk);

/** The lock services of two applications in one namespace. */
let one: LockService;
let other: LockService;
let client: ZkClient;
beforeEach(async () => {
  const [first, second] = await Promise.all([apps.start({}), apps.start({})]);
  ({ client } = first);
  [one, other] = [first.get(LockService), second.get(LockService)];
});

describe('LockService.withLock', () => {
  it('passes the lease to the function, and its result or its error to the caller', async () => {
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
    await one.withLock('stock', async () => {
      expect(await one.withLock('stock', { wait: 0 }, () => 'inner')).toBe('inner');
      await expect(one.withLock('stock', { reentrant: false }, () => {})).rejects.toThrow(
        SelfDeadlockError,
      );
      await expect(one.acquire('stock')).rejects.toThrow(SelfDeadlockError);
    });
  });

  it('rejects if there is no function, or if its result would begin without the lock', async () => {
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
    await using _lease = await one.acquire('stock');
    const controller = new AbortController();
    const waiting = other.acquire('stock', { signal: controller.signal });
    await untilQueued(client, 'stock', 2);
    controller.abort(new Error('enough'));
    await expect(waiting).rejects.toThrow(WaitCancelledError);
    await expect(waiting).rejects.toMatchObject({ cause: { message: 'enough' } });
    await untilQueued(client, 'stock', 1);
  });
});

describe('LockService', () => {
  it('reports with held() whether this process holds a key', async () => {
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
    const path = zk.path('curator');
    await using _lease = await new Mutex(client, path).acquire();
    await expect(one.acquire('stock', { path, wait: 0 })).rejects.toThrow(LockBusyError);
    await expect(one.acquire('stock', { path: 'relative' })).rejects.toThrow(BadOptionError);
  });

  it('keeps every key below the directory of the locks', async () => {
    const keys = ['../../escape', '..', 'a/b', '商品 42', '🛒', 'a\tb'];
    for (const key of keys) await one.withLock(key, () => {});
    await using _lease = await one.acquire('../../escape');
    const { children } = await client.children(`${client.namespace}/locks`);
    expect(children).toContain('..%2F..%2Fescape');
    expect((await client.children(client.namespace)).children).toEqual(['locks']);
  });

  it('keeps no memory of released locks', async () => {
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
    const lease = await one.acquire('stock');
    await loseSession(zk, client);
    expect([lease.held, one.held('stock')]).toEqual([false, false]);
    const { leases } = (one as unknown as { tracker: { leases: Set<unknown> } }).tracker;
    await eventually(() => expect(leases.size).toBe(0));
  });
});

const reading = { mode: 'read', wait: 0 } as const;
const writing = { mode: 'write', wait: 0 } as const;

describe('a lock for readers and writers', () => {
  it('admits many readers in all applications at once, or one writer, which may read', async () => {
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
});

describe('a list of keys', () => {
  it('is locked as a whole, with a lease for each key', async () => {
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
});

describe('a lease with holdAtMost or holdAtLeast', () => {
  it("is lost after holdAtMost, or the module's default, and the next waiter gets the lock", async () => {
    const app = await apps.start({}, { defaults: { holdAtMost: 50_000 } });
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

  it('with several keys counts both times from the grant of the last lock', async () => {
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
  [[], {}, /key must be a list of 1 to 100 keys, but has 0/],
  [['a', 'b', 'a'], {}, /key "a" appears twice in the list/],
  [['a', ''], {}, /key must be a non-empty string/],
  [['a', 'b'], { path: '/x' }, /path must be left out/],
  ['stock', { holdAtMost: 0 }, /holdAtMost.*1 to 2147483647.*0/],
  ['stock', { holdAtMost: '5s' }, /holdAtMost.*"5s"/],
  ['stock', { holdAtLeast: -1 }, /holdAtLeast.*-1/],
  [
    'stock',
    { holdAtLeast: 10, holdAtMost: 5 },
    /holdAtLeast.*at most the 5 milliseconds of holdAtMost.*10/,
  ],
  ['stock', { mode: 'shared' }, /mode.*'exclusive', 'read' or 'write'.*"shared"/],
  ['stock', { onRevoke: 'release' }, /onRevoke.*a function.*"release"/],
  ['stock', { details: 'me' }, /details.*"me"/],
  ['stock', { details: { name: 5 } }, /details\.name.*5/],
  ['stock', { details: { data: 5n } }, /details\.data.*JSON.*5n/],
])('a request for %j with %o is rejected', async (keys, options, message) => {
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

describe('LockService.participants', () => {
  it('lists the holders and the waiters in order, with their modes and details', async () => {
    const waiting = await apps.start({}, { defaults: { details: { name: 'orders' } } });
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
    await using first = await one.acquire('stock', reading);
    await using second = await other.acquire('stock', reading);
    const request = aborted(second.revocation);
    const participants = await one.participants('stock', { mode: 'read' });
    await one.revoke(participants[1]!);
    await request;
    expect(first.revocation.aborted).toBe(false);
  });

  it('notifies the holder of several keys through any of them', async () => {
    let asked: Lease | undefined;
    await one.withLock(['a', 'b'], { onRevoke: (lease) => void (asked = lease) }, async (lease) => {
      const request = aborted(lease.revocation);
      await other.revoke('b');
      await request;
      expect(asked).toBe(lease);
    });
  });

  it('notifies a re-entered call as long as it runs, and the holder may keep the lock', async () => {
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
    await expect(one.revoke('stock')).resolves.toBeUndefined();
    await expect(one.revoke({} as never)).rejects.toThrow(BadOptionError);
  });
});
