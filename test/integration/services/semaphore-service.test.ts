import { Injectable } from '@nestjs/common';
import {
  BadOptionError,
  currentLease,
  getSemaphoreServiceToken,
  InjectSemaphoreService,
  type Lease,
  LockBusyError,
  LockService,
  SemaphoreService,
  ShuttingDownError,
} from 'nestjs-zookeeper';
import { Semaphore } from 'nestjs-zookeeper/recipes';
import { of } from 'rxjs';
import { describe, expect } from 'vitest';
import { eventually } from '../../support/eventually.js';
import { Gate } from '../../support/gate.js';
import { useApps } from '../../support/nest-apps.js';
import { useServer } from '../../support/servers.js';
import { it } from '../../support/virtual-time.js';

const zk = useServer();
const apps = useApps(zk);

/** The semaphore services of two applications in one namespace. */
async function two() {
  const [app, second] = await Promise.all([apps.start({}), apps.start({})]);
  return {
    app,
    client: app.client,
    one: app.get(SemaphoreService),
    other: second.get(SemaphoreService),
  };
}

async function untilWaiting(service: SemaphoreService, key: string, count = 1): Promise<void> {
  await eventually(async () => {
    const seen = await service.participants(key, { permits: 2 });
    expect(seen.filter(({ state }) => state === 'waiting')).toHaveLength(count);
  });
}

const twoPermits = { permits: 2 };

describe('SemaphoreService', () => {
  it('passes the lease to the function, its result to the caller, and its error unchanged', async () => {
    const { one } = await two();
    const result = await one.withPermit('reports', twoPermits, (lease) => {
      expect(lease).toMatchObject({ key: 'reports', held: true });
      expect(currentLease('reports')).toBe(lease);
      return 'printed';
    });
    expect(result).toBe('printed');
    const error = new Error('no paper');
    await expect(one.withPermit('reports', twoPermits, () => Promise.reject(error))).rejects.toBe(
      error,
    );
    await expect(one.withPermit('reports', twoPermits, () => of(1))).rejects.toThrow(
      /result of fn must be no Observable/,
    );
    expect(await one.available('reports', twoPermits)).toBe(2);
  });

  it('acquires several permits or none, and releases them together or one by one', async () => {
    const { one, other } = await two();
    const leases = await one.acquireEach('reports', { permits: 3, count: 2 });
    expect(leases).toHaveLength(2);
    expect(await other.tryAcquire('reports', { permits: 3, count: 2 })).toBeUndefined();
    expect(await other.available('reports', { permits: 3 })).toBe(1);
    await leases[0]!.release();
    const both = await other.acquire('reports', { permits: 3, count: 2, wait: 0 });
    expect(await one.available('reports', { permits: 3 })).toBe(0);
    await Promise.all([both.release(), leases[1]!.release()]);
    expect(await one.available('reports', { permits: 3 })).toBe(3);
  });

  it('shares the number of permits in a znode, and a higher number wakes waiters', async () => {
    const { one, other } = await two();
    const shared = { permits: 'shared' } as const;
    await expect(one.acquire('reports', { ...shared, wait: 0 })).rejects.toThrow(
      /permits.*never set.*setPermits/,
    );
    await one.setPermits('reports', 1);
    await using _lease = await one.acquire('reports', shared);
    await expect(other.acquire('reports', { ...shared, wait: 0 })).rejects.toThrow(LockBusyError);
    const waiting = other.acquire('reports', { ...shared, wait: 30_000 });
    await eventually(async () => {
      expect(await one.participants('reports', shared)).toHaveLength(2);
    });
    await one.setPermits('reports', 2);
    await using _second = await waiting;
    expect(await other.available('reports', shared)).toBe(0);
    await other.setPermits('reports', 5);
    expect(await one.available('reports', shared)).toBe(3);
  });

  it('uses <namespace>/semaphores/<key>, or an exact path, and is independent of the lock with the same key', async () => {
    const { app, client, one } = await two();
    await using _lock = await app.get(LockService).acquire('a/b');
    const recipe = new Semaphore(client, `${client.namespace}/semaphores/a%2Fb`, { permits: 1 });
    await using _lease = await one.acquire('a/b', { permits: 1 });
    expect(await recipe.available()).toBe(0);
    const path = zk.path('exact');
    await using _exact = await one.acquire('a/b', { permits: 1, path, wait: 0 });
    expect(await new Semaphore(client, path, { permits: 1 }).available()).toBe(0);
    await one.setPermits('pool', 4, { path: `${path}-shared` });
    expect(await one.available('any', { permits: 'shared', path: `${path}-shared` })).toBe(4);
  });

  it('lists the holders and the waiters, and requests revocation from a holder', async () => {
    const { one, other } = await two();
    const asked: Lease[] = [];
    const lease = await one.acquire('reports', {
      permits: 2,
      count: 2,
      details: { text: 'year end' },
      onRevoke: (held) => {
        asked.push(held);
        void held.release();
      },
    });
    const waiting = other.acquire('reports', { ...twoPermits, wait: 30_000 });
    await untilWaiting(one, 'reports');
    const [first] = await other.participants('reports', twoPermits);
    expect(first).toMatchObject({
      state: 'holding',
      mode: 'permit',
      details: { text: 'year end' },
    });
    await other.revoke(first!);
    await using _next = await waiting;
    expect(asked).toEqual([lease]);
  });

  it('takes options that a call leaves out from the module', async () => {
    const app = await apps.start({}, { defaults: { wait: 0, details: { name: 'printer' } } });
    const { one } = await two();
    await using _lease = await app.get(SemaphoreService).acquire('reports', { permits: 1 });
    await expect(app.get(SemaphoreService).acquire('reports', { permits: 1 })).rejects.toThrow(
      LockBusyError,
    );
    expect(await one.participants('reports', { permits: 1 })).toMatchObject([
      { details: { name: 'printer' } },
    ]);
  });

  it('can be injected by class, and by token for a named connection', async () => {
    @Injectable()
    class Reports {
      constructor(
        @InjectSemaphoreService() readonly byToken: SemaphoreService,
        @InjectSemaphoreService('default') readonly byName: SemaphoreService,
        readonly byClass: SemaphoreService,
      ) {}
    }
    const { byToken, byName, byClass } = await apps.provider(Reports);
    expect([byToken, byName]).toEqual([byClass, byClass]);
    const named = await apps.start({}, { name: 'printers' });
    expect(named.get(getSemaphoreServiceToken('printers'))).toBeInstanceOf(SemaphoreService);
  });

  it('rejects new acquires when the application shuts down, and waits for the present holders', async () => {
    const { app, one, other } = await two();
    const gate = new Gate();
    const holding = one.withPermit('reports', { permits: 1 }, async () => {
      await gate.pass();
      // Unlike re-entering a lock, another permit is a new grant.
      await expect(one.acquire('reports', { permits: 1 })).rejects.toThrow(
        /semaphore "reports" is refused.*shutting down/,
      );
    });
    await gate.reached;
    const queued = one.acquire('reports', { permits: 1 }).catch((error: unknown) => error);
    const closed = app.close();
    expect(await queued).toBeInstanceOf(ShuttingDownError);
    gate.open();
    await Promise.all([holding, closed]);
    await using _lease = await other.acquire('reports', { permits: 1, wait: 0 });
  });

  it.each<[unknown, unknown, RegExp]>([
    ['k', undefined, /options.*permits/],
    ['k', {}, /permits.*'shared'.*undefined/],
    ['k', { permits: 0 }, /permits.*0/],
    ['k', { permits: 1.5 }, /permits.*1\.5/],
    ['k', { permits: '3' }, /permits.*"3"/],
    ['k', { permits: 1, count: 0 }, /count.*0/],
    ['k', { permits: 2, count: 3 }, /count.*at most the 2 permits.*3/],
    ['k', { permits: 1, mode: 'read' }, /unknown option mode/],
    ['k', { permits: 1, wait: -1 }, /wait.*-1/],
    ['', { permits: 1 }, /key.*""/],
    [['k'], { permits: 1 }, /key.*an array of 1/],
  ])('rejects a request for %j with %j', async (name, options, message) => {
    const one = (await apps.start({})).get(SemaphoreService);
    const [key, asked] = [name as string, options as { permits: number }];
    for (const attempt of [
      one.acquire(key, asked),
      one.tryAcquire(key, asked),
      one.acquireEach(key, asked),
      one.withPermit(key, asked, () => {}),
    ]) {
      await expect(attempt).rejects.toThrow(BadOptionError);
      await expect(attempt).rejects.toThrow(message);
    }
    for (const permits of [0, 1.5, 2 ** 31, Number.NaN]) {
      await expect(one.setPermits('k', permits)).rejects.toThrow(BadOptionError);
    }
  });
});
