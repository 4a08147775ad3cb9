import { Controller, Get, Inject, Injectable, Module, Param } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import {
  BadOptionError,
  currentLease,
  currentTerm,
  DistributedLock,
  DistributedSemaphore,
  LeaderOnly,
  LeaderService,
  LeaseLostError,
  LockBusyError,
  LockService,
  LockTimeoutError,
  MisuseError,
  NotLeaderError,
  SelfDeadlockError,
  SemaphoreService,
  WaitCancelledError,
  ZkModule,
} from 'nestjs-zookeeper';
import { FakeLocks, TestZooKeeper } from 'nestjs-zookeeper/testing';
import { of } from 'rxjs';
import request from 'supertest';
import { beforeEach, describe, expect, it, vi } from 'vitest';
import { silent } from '../../support/nest-apps.js';

@Injectable()
class Orders {
  private readonly shop = 'north';
  during: () => unknown = () => {};

  constructor(@Inject(LockService) readonly locks: LockService) {}

  @DistributedLock((id) => `order:${id}`, { wait: 0 })
  async pay(id: string) {
    this.during();
    return [id, currentLease()?.key, currentLease()?.held];
  }

  @DistributedLock('stock')
  async count() {
    return 'counted';
  }

  @DistributedLock('stock', { wait: 5_000 })
  async take() {
    return currentLease()!.fencingToken;
  }

  @DistributedLock('job', { wait: 0, onBusy: 'skip' })
  async job(): Promise<string | undefined> {
    return 'ran';
  }

  @DistributedLock(function (id) {
    return [this.shop, id];
  })
  async move(id: string) {
    return [id, currentLease()!.key];
  }

  @DistributedSemaphore('printer', { permits: 3, count: 2, wait: 0 })
  async print() {
    return this.during();
  }

  @LeaderOnly('nightly')
  async nightly(): Promise<string | undefined> {
    await this.during();
    return currentTerm()!.election;
  }

  @DistributedLock('stream')
  stream() {
    return of(currentLease()!.key);
  }
}

@Controller('orders')
class OrdersController {
  @Get(':id')
  @DistributedLock((id) => `order:${id}`, { wait: 0 })
  async find(@Param('id') id: string) {
    return { id, key: currentLease()!.key };
  }

  @Get('report/leader')
  @LeaderOnly('nightly')
  async report() {
    return 'report';
  }
}

describe('FakeLocks', () => {
  let locks: FakeLocks;
  let orders: Orders;

  beforeEach(async () => {
    locks = new FakeLocks();
    const module = await Test.createTestingModule({ providers: [Orders, ...locks.providers] })
      .setLogger(silent)
      .compile();
    orders = module.get(Orders);
  });

  it('grant every lock, with a lease that ends with the call', async () => {
    expect(await orders.pay('7')).toEqual(['7', 'order:7', true]);
    expect(orders.locks.held('order:7')).toBe(false);
    expect(await orders.move('7')).toEqual(['7', 'north, 7']);
    expect((await orders.take()) < (await orders.take())).toBe(true);
  });

  it('refuse a busy lock at once, whatever the wait', async () => {
    locks.busy('order:7');
    locks.busy('stock');
    locks.busy('job');
    await expect(orders.pay('7')).rejects.toThrow(LockBusyError);
    await expect(orders.take()).rejects.toThrow(LockTimeoutError);
    expect(await orders.job()).toBeUndefined();
    expect((await orders.pay('8'))[0]).toBe('8');
    locks.free('job');
    expect(await orders.job()).toBe('ran');
  });

  it('let a call wait for a busy lock that has no limit', async () => {
    locks.busy('stock');
    const cancel = new AbortController();
    const cancelled = orders.locks.acquire('stock', { signal: cancel.signal });
    const counted = orders.count();
    cancel.abort();
    await expect(cancelled).rejects.toThrow(WaitCancelledError);
    await expect(orders.locks.acquire('stock', { signal: cancel.signal })).rejects.toThrow(
      WaitCancelledError,
    );
    locks.free('stock');
    expect(await counted).toBe('counted');
    expect(orders.locks.held('stock')).toBe(false);
  });

  it('lose a lease on command', async () => {
    orders.during = () => {
      locks.lose('order:7');
      expect(currentLease()!.signal.aborted).toBe(true);
    };
    await expect(orders.pay('7')).rejects.toThrow(LeaseLostError);
    await expect(orders.pay('7')).rejects.toThrow(LockBusyError);
  });

  it('work with all methods of LockService', async () => {
    const service = orders.locks;
    expect(await service.withLock(['a', 'b'], ({ leases }) => leases.length)).toBe(2);
    expect(await service.withLock('a', () => service.withLock('a', () => 'again'))).toBe('again');
    await expect(service.withLock('a', () => service.acquire('a'))).rejects.toThrow(
      SelfDeadlockError,
    );
    await expect(service.acquire('a', { wiat: 5 } as never)).rejects.toThrow(BadOptionError);
    {
      await using lease = await service.acquire('a', { mode: 'read' });
      expect([lease.held, service.held('a')]).toEqual([true, true]);
      await service.revoke('a');
      expect(lease.revocation.aborted).toBe(true);
      expect(await service.participants('a')).toEqual([]);
    }
    locks.busy('a');
    expect(await service.tryAcquire('a')).toBeUndefined();
    await expect(service.acquire(['b', 'a'], { wait: 0 })).rejects.toThrow(LockBusyError);
    expect(service.held('b')).toBe(false);
  });

  it.each([null, '', 5, 'x', '/', '/x/', '/x//y'])(
    'refuse the path %j of a znode',
    async (path) => {
      const service = orders.locks;
      const semaphores = locks.get(SemaphoreService)!;
      const leaders = locks.get(LeaderService)!;
      const wrong = { path, permits: 1 } as never;
      const only = { path } as never;
      const calls: (() => unknown)[] = [
        () => service.acquire('a', only),
        () => service.withLock('a', only, () => {}),
        () => service.held('a', only),
        () => service.participants('a', only),
        () => semaphores.acquire('a', wrong),
        () => semaphores.available('a', wrong),
        () => semaphores.setPermits('a', 1, only),
        () => leaders.latch('a', only),
        () => leaders.select('a', () => {}, only),
      ];
      for (const call of calls) {
        const error = await Promise.resolve()
          .then(call)
          .catch((thrown: unknown) => thrown);
        expect(error).toBeInstanceOf(BadOptionError);
        expect(error).toMatchObject({ option: 'path', value: path });
      }
    },
  );

  it('limit a lease by holdAtMost under fake timers', async () => {
    vi.useFakeTimers();
    const lease = await orders.locks.acquire('a', { holdAtMost: 60_000 });
    vi.advanceTimersByTime(60_000);
    vi.useRealTimers();
    expect([lease.held, lease.signal.aborted]).toEqual([false, true]);
  });

  it('grant permits, and count those that are held', async () => {
    const semaphores = locks.get(SemaphoreService) as SemaphoreService;
    orders.during = () => semaphores.available('printer', { permits: 3 });
    expect(await orders.print()).toBe(1);
    expect(await semaphores.available('printer', { permits: 3 })).toBe(3);
    expect(await semaphores.acquireEach('printer', { permits: 3, count: 2 })).toHaveLength(2);
    const shared = { permits: 'shared' } as const;
    await expect(semaphores.available('pages', shared)).rejects.toThrow(BadOptionError);
    await semaphores.setPermits('pages', 4);
    expect(await semaphores.available('pages', shared)).toBe(4);
    locks.busy('printer');
    expect(await semaphores.available('printer', { permits: 3 })).toBe(0);
    await expect(orders.print()).rejects.toThrow(LockBusyError);
  });

  it('lead every election until it is busy or lost', async () => {
    const leaders = locks.get(LeaderService)!;
    expect(await orders.nightly()).toBe('nightly');
    expect(await leaders.leader('nightly')).toMatchObject({ isLeader: true });
    const seen: boolean[] = [];
    leaders.changes('nightly').subscribe(({ isLeader }) => seen.push(isLeader));
    orders.during = () => locks.lose('nightly');
    await expect(orders.nightly()).rejects.toThrow(NotLeaderError);
    expect(await orders.nightly()).toBeUndefined();
    expect(await leaders.leader('nightly')).toMatchObject({ id: 'another process' });
    orders.during = () => {};
    locks.free('nightly');
    expect(leaders.isLeader('nightly')).toBe(true);
    expect(await orders.nightly()).toBe('nightly');
    expect(seen).toEqual([true, false, true]);
    await leaders.resign('nightly');
    await vi.waitFor(() => expect(seen).toEqual([true, false, true, false, true]));
    await leaders.resignAll(0);
    expect(leaders.isLeader('nightly')).toBe(false);
  });

  it('give up an election that becomes busy, and keep the locks that are held', async () => {
    const leaders = locks.get(LeaderService)!;
    const lease = await locks.get(LockService)!.acquire('nightly');
    orders.during = () => locks.busy('nightly');
    await expect(orders.nightly()).rejects.toThrow(NotLeaderError);
    expect(leaders.isLeader('nightly')).toBe(false);
    expect(lease.held).toBe(true);
    locks.free('nightly');
    expect(leaders.isLeader('nightly')).toBe(true);
  });

  it('let a candidate wait for a busy election, or leave it', async () => {
    const leaders = locks.get(LeaderService)!;
    locks.busy('nightly');
    locks.busy('hourly');
    const latch = leaders.latch('nightly');
    expect(latch.hasLeadership).toBe(false);
    await latch.close();
    const term = leaders.latch('hourly', { priority: 1 }).await();
    locks.free('hourly');
    expect((await term).active).toBe(true);
    const led = new Promise((resolve) => leaders.select('weekly', resolve));
    expect(await led).toMatchObject({ election: 'weekly' });
  });

  it('serve handlers over HTTP without a ZkModule', async () => {
    const module = await Test.createTestingModule({
      controllers: [OrdersController],
      providers: locks.providers,
    }).compile();
    const app = module.createNestApplication({ logger: false });
    await app.init();
    const server = app.getHttpServer() as Parameters<typeof request>[0];
    expect((await request(server).get('/orders/7')).body).toEqual({ id: '7', key: 'order:7' });
    expect((await request(server).get('/orders/report/leader')).text).toBe('report');
    locks.busy('order:7');
    locks.lose('nightly');
    expect((await request(server).get('/orders/7')).status).toBe(409);
    expect((await request(server).get('/orders/report/leader')).status).toBe(503);
    await app.close();
  });

  it('are found by useMocker, also by the modules of the application', async () => {
    @Module({ providers: [Orders] })
    class OrdersModule {}
    const module = await Test.createTestingModule({ imports: [OrdersModule] })
      .useMocker((token) => locks.get(token) ?? {})
      .compile();
    locks.busy('order:7');
    await expect(module.get(Orders).pay('7')).rejects.toThrow(LockBusyError);
  });

  it('replace the service of a ZkModule with overrideProvider', async () => {
    await using zookeeper = TestZooKeeper.inProcess();
    const connection = ZkModule.forRoot({ connectString: '127.0.0.1:1' });
    const builder = Test.createTestingModule({ imports: [connection], providers: [Orders] });
    const module = await zookeeper
      .override(builder)
      .overrideProvider(LockService)
      .useValue(locks.get(LockService))
      .setLogger(silent)
      .compile();
    await module.init();
    locks.busy('order:7');
    await expect(module.get(Orders).pay('7')).rejects.toThrow(LockBusyError);
    await module.close();
  });

  it('are injected into an instance that the test created', async () => {
    const created = locks.inject(new Orders(locks.get(LockService) as LockService));
    expect((await created.pay('7'))[0]).toBe('7');
    class Nightly extends Orders {}
    const derived = locks.inject(new Nightly(created.locks));
    expect(await derived.nightly()).toBe('nightly');
    expect(locks.inject({})).toEqual({});
  });

  it('stand for a named connection', async () => {
    @Injectable()
    class Audit {
      @DistributedLock('audit', { connection: 'audit' })
      async run() {
        return 'ran';
      }
    }
    const providers = [Audit, ...new FakeLocks('audit').providers];
    const module = await Test.createTestingModule({ providers }).compile();
    expect(await module.get(Audit).run()).toBe('ran');
  });
});

describe('a decorated method whose service is a bare mock', () => {
  const mocks: [string, () => object][] = [
    ['an empty object', () => ({})],
    ['withLock() alone', () => ({ withLock: (_: string, fn: () => unknown) => fn() })],
    ['functions that return undefined', () => ({ enter: vi.fn(), isLeader: vi.fn() })],
    ['a deep mock', () => deepMock()],
  ];
  /** As createMock() of @golevelup: every property is a function that returns such a mock. */
  const deepMock = (): object =>
    new Proxy(() => {}, {
      get: (_, name) => (name === 'then' ? undefined : deepMock()),
      apply: deepMock,
    });

  it.each(mocks)('rejects without running, and the error names FakeLocks: %s', async (_, mock) => {
    const module = await Test.createTestingModule({ providers: [Orders] })
      .useMocker(mock)
      .compile();
    const orders = module.get(Orders);
    const during = vi.fn();
    orders.during = during;
    for (const run of [() => orders.pay('7'), () => orders.print(), () => orders.nightly()]) {
      await expect(run()).rejects.toThrow(MisuseError);
      await expect(run()).rejects.toThrow(
        /Orders\.\w+ .*is a mock.*FakeLocks.*nestjs-zookeeper\/testing/s,
      );
    }
    expect(during).not.toHaveBeenCalled();
  });

  it('accepts a mock that returns what the service returns', async () => {
    const entry = {
      lease: { held: true, signal: new AbortController().signal },
      run: (fn: () => unknown) => fn(),
      release: async () => {},
    };
    const module = await Test.createTestingModule({ providers: [Orders] })
      .useMocker(() => ({ enter: async () => entry }))
      .compile();
    expect(await module.get(Orders).count()).toBe('counted');
    const leaders = { enter: () => undefined, isLeader: () => false };
    const follower = await Test.createTestingModule({ providers: [Orders] })
      .useMocker(() => leaders)
      .compile();
    expect(await follower.get(Orders).nightly()).toBeUndefined();
  });

  it('is named by the errors of an instance without a service and of a missing provider', async () => {
    const created = new Orders(undefined as never);
    await expect(created.pay('7')).rejects.toThrow(/inject\(\) of a FakeLocks/);
    await expect(Test.createTestingModule({ providers: [Orders] }).compile()).rejects.toThrow();
    @Injectable()
    class Plain {
      @DistributedLock('a')
      async run() {}
    }
    await expect(
      Test.createTestingModule({ providers: [Plain] })
        .setLogger(silent)
        .compile(),
    ).rejects.toThrow(/providers of a FakeLocks/);
  });
});

describe('a transaction of a fake lease', () => {
  it('is recorded and makes results while the lease is held', async () => {
    const fakes = new FakeLocks();
    const locks = fakes.get(LockService) as LockService;
    const lease = await locks.acquire('a');
    const operations = [{ create: '/a/b' }, { set: '/a', data: 'x' }, { check: '/a' }] as const;
    const [path, stat, nothing] = await lease.transaction(operations);
    expect([path, stat.version, nothing]).toEqual(['/a/b', 1, undefined]);
    expect(fakes.transactions).toEqual([operations]);
    await expect(lease.transaction([{ check: 'a' }])).rejects.toThrow(BadOptionError);
    fakes.lose('a');
    await expect(lease.transaction([{ check: '/a' }])).rejects.toThrow(LeaseLostError);
    expect(fakes.transactions).toHaveLength(1);
  });
});
