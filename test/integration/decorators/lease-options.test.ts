import { Controller, Get, Injectable, Param, type PipeTransform } from '@nestjs/common';
import { Interval, ScheduleModule } from '@nestjs/schedule';
import {
  currentLease,
  DistributedLock,
  DistributedSemaphore,
  LeaseLostError,
  LockBusyError,
  LockService,
  MisuseError,
  SemaphoreService,
  type MultiLease,
} from 'nestjs-zookeeper';
import { firstValueFrom, NEVER, Observable, of, toArray } from 'rxjs';
import request from 'supertest';
import { describe, expect, it } from 'vitest';
import { aborted } from '../../support/clients.js';
import { eventually } from '../../support/eventually.js';
import { Meter } from '../../support/meter.js';
import { call, Gate, untilQueued, useApps } from '../../support/nest-apps.js';
import { useServer } from '../../support/servers.js';

const zk = useServer();
const apps = useApps(zk);

@Injectable()
class Upper implements PipeTransform<string, string> {
  transform(value: string): string {
    return value.toUpperCase();
  }
}

describe('@DistributedLock with a mode', () => {
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

  it('runs read handlers together, and no write handler beside them', async () => {
    const app = await apps.listen({ controllers: [Prices] });
    const { gates } = app.get(Prices);
    const answers = (['first', 'second'] as const).map((gate) =>
      request(app.url)
        .get(`/read/${gate}`)
        .then(({ text }) => text),
    );
    await Promise.all([gates.first.reached, gates.second.reached]);
    expect((await request(app.url).get('/write')).status).toBe(409);
    gates.first.open();
    gates.second.open();
    expect(await Promise.all(answers)).toEqual(['read', 'read']);
    expect((await request(app.url).get('/write')).text).toBe('true');
  });

  it('lets a provider that writes also read', async () => {
    const prices = await apps.provider(Prices);
    expect(await prices.write()).toBe(true);
  });
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

  @Controller()
  class Transfers {
    @Get('fixed')
    @DistributedLock(['b', 'a'], { wait: 0 })
    async fixed() {
      return seen();
    }

    @Get(':from/:to')
    @DistributedLock((from, to) => [from, to], { wait: 0 })
    async transfer(@Param('from') from: string, @Param('to') to: string) {
      return { ...seen(), route: `${from}-${to}` };
    }

    @Get('context/:from/:to')
    @DistributedLock({
      keyFromContext: (context) =>
        Object.values(
          context.switchToHttp().getRequest<{ params: Record<string, string> }>().params,
        ),
      wait: 0,
    })
    async fromContext(@Param('from', Upper) _from: string) {
      return seen();
    }
  }

  it('acquires all keys for a handler, from constants, arguments or the context', async () => {
    const app = await apps.listen({ controllers: [Transfers] });
    const all = { parts: ['a', 'b'], held: true };
    expect((await request(app.url).get('/fixed')).body).toEqual({ ...all, whole: ['b', 'a'] });
    expect((await request(app.url).get('/a/b')).body).toMatchObject({ ...all, whole: ['a', 'b'] });
    expect((await request(app.url).get('/context/a/b')).body).toMatchObject(all);
    expect(['a', 'b'].some((key) => app.get(LockService).held(key))).toBe(false);
  });

  it('acquires all keys or none, and answers 409 if one is held elsewhere', async () => {
    const app = await apps.listen({ controllers: [Transfers] });
    const other = (await apps.start({})).get(LockService);
    await using _b = await other.acquire('b');
    for (const path of ['/fixed', '/a/b', '/context/a/b']) {
      expect((await request(app.url).get(path)).status).toBe(409);
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
    const gates = [new Gate(), new Gate()];
    let calls = 0;
    const losses: Promise<unknown>[] = [];
    @Controller()
    class Jobs {
      @Get()
      @DistributedLock('job', { holdAtMost: 100 })
      async run() {
        const { signal } = currentLease('job')!;
        const nth = calls++;
        losses.push(aborted(signal));
        if (nth === 0) await gates[0]!.pass();
        else gates[1]!.open();
      }
    }
    const app = await apps.listen({ controllers: [Jobs] });
    const hung = request(app.url)
      .get('/')
      .then(({ status }) => status);
    await gates[0]!.reached;
    expect((await request(app.url).get('/')).status).toBe(200);
    expect(await losses[0]).toBeInstanceOf(LeaseLostError);
    gates[0]!.open();
    expect(await hung).toBe(500);
  });

  it('ends its stream at holdAtMost', async () => {
    @Injectable()
    class Prices {
      @DistributedLock('prices', { holdAtMost: 50 })
      watch(): Observable<never> {
        return NEVER;
      }
    }
    const prices = await apps.provider(Prices);
    await expect(firstValueFrom(prices.watch())).rejects.toThrow(LeaseLostError);
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
    expect([await one.run(), await other.run(), runs]).toEqual([undefined, undefined, 1]);
  });

  it('shows its details, and receives revocation requests', async () => {
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
    const app = await apps.listen({ controllers: [Jobs] });
    const locks = (await apps.start({})).get(LockService);
    for (const run of [
      () =>
        request(app.url)
          .get('/')
          .then(({ text }) => text),
      () => app.get(Jobs).run().then(String),
    ]) {
      [gate, asked] = [new Gate(), new Gate()];
      const running = run();
      await eventually(async () => {
        expect(await locks.participants('job')).toMatchObject([{ details: { text: 'nightly' } }]);
      });
      await locks.revoke('job');
      await asked.pass();
      gate.open();
      expect(await running).toBe('true');
    }
  });
});

describe('@DistributedSemaphore', () => {
  it('admits as many requests at a time as there are permits, on all instances together', async () => {
    const meter = new Meter(3);
    @Controller()
    class Reports {
      @Get('report/:year')
      @DistributedSemaphore((year) => `reports-${year}`, { permits: 3 })
      async report(@Param('year') year: string) {
        return meter.pass([year, currentLease(`reports-${year}`)?.held]);
      }
    }
    const instances = [
      await apps.listen({ controllers: [Reports] }),
      await apps.listen({ controllers: [Reports] }),
    ];
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, i) => request(instances[i % 2]!.url).get('/report/2024')),
    );
    for (const { body } of answers) expect(body).toEqual(['2024', true]);
    expect(meter.most).toBe(3);
  });

  it('makes its key from piped arguments, or from the context before the pipes', async () => {
    @Controller()
    class Reports {
      @Get('arguments/:year')
      @DistributedSemaphore((year) => year, { permits: 1 })
      async arguments(@Param('year', Upper) _year: string) {
        return [currentLease()?.key];
      }

      @Get('context/:year')
      @DistributedSemaphore({
        keyFromContext: (context) =>
          context.switchToHttp().getRequest<{ params: { year: string } }>().params.year,
        permits: 1,
      })
      async context(@Param('year', Upper) _year: string) {
        return [currentLease()?.key];
      }
    }
    const app = await apps.listen({ controllers: [Reports] });
    expect((await request(app.url).get('/arguments/y24')).body).toEqual(['Y24']);
    expect((await request(app.url).get('/context/y24')).body).toEqual(['y24']);
    await expect(app.get(Reports).context('y24')).rejects.toThrow(
      /@DistributedSemaphore on Reports\.context.*ExecutionContext/,
    );
  });

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
    const app = await apps.listen({ controllers: [Reports] });
    const other = (await apps.start({})).get(SemaphoreService);
    await using _lease = await other.acquire('reports', { permits: 1 });
    expect((await request(app.url).get('/busy')).status).toBe(409);
    expect((await request(app.url).get('/timeout')).headers['retry-after']).toBe('1');
    const untilSeen = (count: number) =>
      eventually(async () =>
        expect(await other.participants('reports', { permits: 1 })).toHaveLength(count),
      );
    const caller = call(`${app.url}/wait`);
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
    const app = await apps.listen({ controllers: [Reports] });
    const { body } = await request(app.url).get('/2024');
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

  it('uses the shared number of permits', async () => {
    @Injectable()
    class Reports {
      @DistributedSemaphore('reports', { permits: 'shared', wait: 0 })
      async print() {
        return 'printed';
      }
    }
    const app = await apps.start({ providers: [Reports] });
    const semaphores = app.get(SemaphoreService);
    await semaphores.setPermits('reports', 1);
    await using _lease = await semaphores.acquire('reports', { permits: 'shared' });
    await expect(app.get(Reports).print()).rejects.toThrow(LockBusyError);
    await semaphores.setPermits('reports', 2);
    expect(await app.get(Reports).print()).toBe('printed');
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
    const { key, subscription } = await new Promise<{
      key: string | undefined;
      subscription: { unsubscribe(): void };
    }>((resolve) => {
      const opened = reports
        .open()
        .subscribe((seen) => setImmediate(() => resolve({ key: seen, subscription: opened })));
    });
    expect([key, await reports.print()]).toEqual(['reports', undefined]);
    subscription.unsubscribe();
    await eventually(async () => expect(await reports.print()).toBe('printed'));
  });

  it('runs with @Interval', async () => {
    const gate = new Gate();
    @Injectable()
    class Jobs {
      @Interval(10)
      @DistributedSemaphore('job', { permits: 1, wait: 0, onBusy: 'skip' })
      async run(): Promise<void> {
        gate.open();
        await gate.pass();
      }
    }
    await apps.start({ imports: [ScheduleModule.forRoot()], providers: [Jobs] });
    await gate.reached;
  });

  it('uses the connection that it names', async () => {
    @Injectable()
    class Reports {
      @DistributedSemaphore('reports', { permits: 1, connection: 'printers' })
      async print() {
        return currentLease()?.path;
      }
    }
    const reports = await apps.provider(Reports, { name: 'printers' });
    expect(await reports.print()).toMatch(/\/semaphores\/reports$/);
  });

  it('rejects on an object that Nest did not create', async () => {
    class Reports {
      @DistributedSemaphore('reports', { permits: 1 })
      async print() {}
    }
    await expect(new Reports().print()).rejects.toThrow(MisuseError);
    await expect(new Reports().print()).rejects.toThrow(
      /Reports\.print has a @DistributedSemaphore.*no injected SemaphoreService/,
    );
  });
});

describe('a handler that waits behind a writer', () => {
  it('leaves the queue when its client disconnects', async () => {
    @Controller()
    class Prices {
      @Get()
      @DistributedLock(['prices', 'stock'], { mode: 'write' })
      async write() {}
    }
    const app = await apps.listen({ controllers: [Prices] });
    const other = (await apps.start({})).get(LockService);
    await using _reader = await other.acquire('prices', { mode: 'read' });
    const caller = call(app.url);
    await untilQueued(app.client, 'prices', 2);
    caller.leave();
    await untilQueued(app.client, 'prices', 1);
    await using _stock = await other.acquire('stock', { mode: 'read', wait: 5_000 });
  });
});
