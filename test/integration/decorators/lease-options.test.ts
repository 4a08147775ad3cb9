import { Controller, Get, Injectable, Param } from '@nestjs/common';
import {
  currentLease,
  DistributedLock,
  DistributedSemaphore,
  LeaseLostError,
  LockBusyError,
  LockService,
  SemaphoreService,
  type MultiLease,
  ZkModule,
} from 'nestjs-zookeeper';
import { firstValueFrom, NEVER, Observable, of, toArray } from 'rxjs';
import { describe, expect } from 'vitest';
import { call, get } from '../../support/http-calls.js';
import { Meter } from '../../support/meter.js';
import { Gate } from '../../support/gate.js';
import { useApps } from '../../support/nest-apps.js';
import { useServer } from '../../support/servers.js';
import { it } from '../../support/virtual-time.js';

const apps = useApps(useServer());

it('@DistributedLock with a mode runs read handlers together, no write handler beside them, and lets a writer read', async () => {
  @Controller()
  class Prices {
    readonly gates = { first: new Gate(), second: new Gate() };

    @Get('read/:gate')
    @DistributedLock('prices', { mode: 'read', wait: 0 })
    async read(@Param('gate') gate: 'first' | 'second') {
      await this.gates[gate].pass();
      return 'read';
    }

    @Get('write')
    @DistributedLock('prices', { mode: 'write', wait: 0 })
    async write() {
      return this.locked();
    }

    @DistributedLock('prices', { mode: 'read', wait: 0 })
    async locked() {
      return currentLease('prices')?.held;
    }
  }
  const app = await apps.start({ controllers: [Prices] });
  const { gates } = app.get(Prices);
  const answers = ['first', 'second'].map((gate) => get(app, `/read/${gate}`));
  await Promise.all([gates.first.reached, gates.second.reached]);
  expect((await get(app, '/write')).status).toBe(409);
  gates.first.open();
  gates.second.open();
  expect((await Promise.all(answers)).map(({ text }) => text)).toEqual(['read', 'read']);
  expect((await get(app, '/write')).text).toBe('true');
});

describe('@DistributedLock with several keys', () => {
  const seen = () => {
    const whole = currentLease() as MultiLease | undefined;
    return {
      whole: whole?.leases.map(({ key }) => key),
      parts: ['a', 'b'].map((key) => currentLease(key)?.key),
      held: whole?.held,
    };
  };

  it('acquires all keys for a handler or none, from constants, arguments or the context', async () => {
    @Controller()
    class Transfers {
      @Get('fixed')
      @DistributedLock(['b', 'a'], { wait: 0 })
      async fixed() {
        return seen();
      }

      @Get(':from/:to')
      @DistributedLock((from, to) => [from, to], { wait: 0 })
      async transfer(@Param('from') _from: string, @Param('to') _to: string) {
        return seen();
      }

      @Get('context/:from/:to')
      @DistributedLock({
        keyFromContext: (context) =>
          Object.values(
            context.switchToHttp().getRequest<{ params: Record<string, string> }>().params,
          ),
        wait: 0,
      })
      async fromContext() {
        return seen();
      }
    }
    const app = await apps.start({ controllers: [Transfers] });
    const all = { parts: ['a', 'b'], held: true };
    expect((await get(app, '/fixed')).body).toEqual({ ...all, whole: ['b', 'a'] });
    expect((await get(app, '/a/b')).body).toEqual({ ...all, whole: ['a', 'b'] });
    expect((await get(app, '/context/a/b')).body).toMatchObject(all);
    expect(['a', 'b'].some((key) => app.get(LockService).held(key))).toBe(false);

    const other = (await apps.start({})).get(LockService);
    await using _b = await other.acquire('b');
    for (const path of ['/fixed', '/a/b', '/context/a/b']) {
      expect((await get(app, path)).status).toBe(409);
    }
    await using _a = await other.acquire('a', { wait: 0 });
  });

  it('acquires all keys for a provider, and creates the error from the key that is held elsewhere', async () => {
    @Injectable()
    class Stock {
      @DistributedLock((from: string, to: string) => [from, to], {
        wait: 0,
        onBusy: (key) => new TypeError(`${key} is busy`),
      })
      async move(_from: string, _to: string) {
        return seen();
      }
    }
    const stock = await apps.provider(Stock);
    expect(await stock.move('a', 'b')).toMatchObject({ held: true, parts: ['a', 'b'] });
    await using _b = await (await apps.start({})).get(LockService).acquire('b');
    await expect(stock.move('a', 'b')).rejects.toThrow(new TypeError('b is busy'));
    await expect(stock.move('a', 'a')).rejects.toThrow(/key.*Stock\.move.*"a" appears twice/);
    await expect(stock.move('a', '')).rejects.toThrow(/key.*Stock\.move.*non-empty/);
  });
});

describe('a locked method with holdAtLeast or holdAtMost', () => {
  it('loses its lock after holdAtMost: the next call runs, and this one rejects when it ends', async () => {
    const gate = new Gate();
    let calls = 0;
    let loss: unknown;
    @Controller()
    class Jobs {
      @Get()
      @DistributedLock('job', { holdAtMost: 10_000 })
      async run() {
        const { signal } = currentLease('job')!;
        if (calls++ > 0) return;
        await gate.pass();
        loss = signal.reason;
      }

      @DistributedLock('prices', { holdAtMost: 10_000 })
      watch(): Observable<never> {
        return NEVER;
      }
    }
    const app = await apps.start({ controllers: [Jobs] });
    const hung = get(app, '/');
    await gate.reached;
    const before = performance.now();
    expect((await get(app, '/')).status).toBe(200);
    expect(performance.now() - before).toBeGreaterThan(9_900);
    expect(performance.now() - before).toBeLessThan(10_100);
    gate.open();
    expect((await hung).status).toBe(500);
    expect(loss).toBeInstanceOf(LeaseLostError);
    await expect(firstValueFrom(app.get(Jobs).watch())).rejects.toThrow(LeaseLostError);
  });

  it('does not run twice within holdAtLeast, on any number of instances', async () => {
    let runs = 0;
    @Injectable()
    class Jobs {
      @DistributedLock('job', { wait: 0, onBusy: 'skip', holdAtLeast: 60_000 })
      async run(): Promise<number | undefined> {
        return ++runs;
      }
    }
    const [one, other] = [await apps.provider(Jobs), await apps.provider(Jobs)];
    expect(await one.run()).toBe(1);
    expect([await one.run(), await other.run()]).toEqual([undefined, undefined]);
    await new Promise((resolve) => setTimeout(resolve, 59_900));
    expect([await one.run(), await other.run()]).toEqual([undefined, undefined]);
    await new Promise((resolve) => setTimeout(resolve, 200));
    expect(await other.run()).toBe(2);
  });
});

it('a locked method shows its details, and receives revocation requests', async () => {
  let gate: Gate;
  let asked: Gate;
  @Controller()
  class Jobs {
    @Get()
    @DistributedLock('job', { details: { text: 'nightly' }, onRevoke: () => asked.open() })
    async run() {
      await gate.pass();
      return currentLease()?.revocation.aborted;
    }
  }
  const app = await apps.start({ controllers: [Jobs] });
  const locks = (await apps.start({})).get(LockService);
  for (const run of [async () => (await get(app, '/')).body, () => app.get(Jobs).run()]) {
    [gate, asked] = [new Gate(), new Gate()];
    const running = run();
    await gate.reached;
    expect(await locks.participants('job')).toMatchObject([{ details: { text: 'nightly' } }]);
    await locks.revoke('job');
    await asked.pass();
    gate.open();
    expect(await running).toBe(true);
  }
});

describe('@DistributedSemaphore', () => {
  it('answers 409 or 503, and leaves the queue when its client disconnects, as a lock does', async () => {
    @Controller()
    class Reports {
      @Get('busy')
      @DistributedSemaphore('reports', { permits: 1, wait: 0 })
      async busy() {}

      @Get('timeout')
      @DistributedSemaphore('reports', { permits: 1, wait: 20 })
      async timeout() {}

      @Get('wait')
      @DistributedSemaphore('reports', { permits: 1 })
      async wait() {}
    }
    const app = await apps.start({ controllers: [Reports] });
    const other = (await apps.start({})).get(SemaphoreService);
    await using _lease = await other.acquire('reports', { permits: 1 });
    expect((await get(app, '/busy')).status).toBe(409);
    expect((await get(app, '/timeout')).headers['retry-after']).toBe('1');
    const untilSeen = async (count: number) => {
      await expect.poll(() => other.participants('reports', { permits: 1 })).toHaveLength(count);
    };
    const caller = call(app, '/wait');
    await untilSeen(2);
    caller.leave();
    await untilSeen(1);
  });

  it('can be combined with @DistributedLock on one method; the upper one is acquired first', async () => {
    @Controller()
    class Reports {
      constructor(
        private readonly locks: LockService,
        private readonly semaphores: SemaphoreService,
      ) {}

      @Get(':year')
      @DistributedLock('printer')
      @DistributedSemaphore((year) => year, { permits: 2 })
      async report(@Param('year') year: string) {
        return {
          innermost: currentLease()?.key,
          printer: this.locks.held('printer'),
          left: await this.semaphores.available(year, { permits: 2 }),
        };
      }
    }
    const app = await apps.start({ controllers: [Reports] });
    const { body } = await get(app, '/2024');
    expect(body).toEqual({ innermost: '2024', printer: true, left: 1 });
    expect(app.get(LockService).held('printer')).toBe(false);
    expect(await app.get(SemaphoreService).available('2024', { permits: 2 })).toBe(2);
  });

  it('admits as many provider calls as the permits allow, with count permits for each', async () => {
    const meter = new Meter(2);
    @Injectable()
    class Reports {
      @DistributedSemaphore('reports', { permits: 4, count: 2 })
      async print(year: number) {
        return meter.pass(year);
      }
    }
    const reports = [await apps.provider(Reports), await apps.provider(Reports)];
    const years = await Promise.all(Array.from({ length: 10 }, (_, i) => reports[i % 2]!.print(i)));
    expect(years).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    expect(meter.most).toBe(2);
  });

  it("checks onBusy: 'skip' against the default wait of the connection that it names", async () => {
    @Injectable()
    class Reports {
      @DistributedSemaphore('reports', { permits: 1, onBusy: 'skip', connection: 'printers' })
      async print(): Promise<string | undefined> {
        return 'printed';
      }
    }
    const printers = ZkModule.forRoot(apps.options({ name: 'printers', defaults: { wait: 0 } }));
    const app = await apps.start({ imports: [printers], providers: [Reports] });
    expect(await app.get(Reports).print()).toBe('printed');
  });

  it('uses the shared number of permits, on the connection that it names', async () => {
    @Injectable()
    class Reports {
      @DistributedSemaphore('reports', { permits: 'shared', wait: 0, connection: 'printers' })
      async print() {
        return currentLease()?.path;
      }
    }
    const app = await apps.start({ providers: [Reports] }, { name: 'printers' });
    const semaphores = new SemaphoreService(app.client);
    await semaphores.setPermits('reports', 1);
    await using _lease = await semaphores.acquire('reports', { permits: 'shared' });
    await expect(app.get(Reports).print()).rejects.toThrow(LockBusyError);
    await semaphores.setPermits('reports', 2);
    expect(await app.get(Reports).print()).toMatch(/\/semaphores\/reports$/);
  });

  it('skips a job, and holds its permit until the end of a stream', async () => {
    @Injectable()
    class Reports {
      @DistributedSemaphore('reports', { permits: 1, wait: 0, onBusy: 'skip' })
      async print(): Promise<string | undefined> {
        return 'printed';
      }

      @DistributedSemaphore('reports', { permits: 1, wait: 0 })
      pages(): Observable<number> {
        return of(1, 2);
      }

      @DistributedSemaphore('reports', { permits: 1 })
      open(): Observable<string | undefined> {
        return new Observable((subscriber) => subscriber.next(currentLease()?.key));
      }
    }
    const reports = await apps.provider(Reports);
    expect(await firstValueFrom(reports.pages().pipe(toArray()))).toEqual([1, 2]);
    const keys: (string | undefined)[] = [];
    const subscription = reports.open().subscribe((key) => keys.push(key));
    await expect.poll(() => keys).toEqual(['reports']);
    expect(await reports.print()).toBeUndefined();
    subscription.unsubscribe();
    await expect.poll(() => reports.print()).toBe('printed');
  });
});
