import { Inject, Injectable, Scope } from '@nestjs/common';
import { ContextIdFactory } from '@nestjs/core';
import { Cron, Interval, ScheduleModule } from '@nestjs/schedule';
import {
  currentLease,
  DistributedLock,
  LeaseLostError,
  LockBusyError,
  LockService,
  LockTimeoutError,
  MisuseError,
} from 'nestjs-zookeeper';
import { firstValueFrom, NEVER, Observable, of, toArray } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { Gate, loseSession, untilQueued, useApps } from '../../support/nest-apps.js';
import { useServer } from '../../support/servers.js';

const zk = useServer();
const apps = useApps(zk);

describe('a locked method of a provider', () => {
  it('runs one call at a time on all instances together', async () => {
    let running = 0;
    let most = 0;
    @Injectable()
    class Stock {
      @DistributedLock((goodsNo) => `goods:${goodsNo}`)
      async deduct(goodsNo: string) {
        most = Math.max(most, ++running);
        await new Promise(setImmediate);
        running--;
        return currentLease(`goods:${goodsNo}`)!.fencingToken;
      }
    }
    const stocks = [await apps.provider(Stock), await apps.provider(Stock)];
    const tokens = await Promise.all(
      Array.from({ length: 20 }, (_, i) => stocks[i % 2]!.deduct('42')),
    );
    expect(most).toBe(1);
    expect(new Set(tokens).size).toBe(20);
  });

  it('passes on its result and its error unchanged, and keeps this', async () => {
    const error = new Error('sold out');
    const result = { ordered: true };
    @Injectable()
    class Stock {
      private readonly answer = result;
      @DistributedLock('goods')
      async order(fails: boolean) {
        if (fails) throw error;
        return this.answer;
      }
    }
    const stock = await apps.provider(Stock);
    expect(await stock.order(false)).toBe(result);
    await expect(stock.order(true)).rejects.toBe(error);
  });

  it('re-enters its own lock and a lock that the service acquired', async () => {
    @Injectable()
    class Stock {
      @Inject(LockService) private readonly locks!: LockService;

      @DistributedLock('goods', { wait: 0 })
      async outer() {
        return Promise.all([
          this.inner(),
          this.locks.withLock('goods', { wait: 0 }, () => 'service'),
        ]);
      }

      @DistributedLock('goods', { wait: 0 })
      async inner() {
        return 'inner';
      }
    }
    const stock = await apps.provider(Stock);
    expect(await stock.outer()).toEqual(['inner', 'service']);
  });

  it("rejects with the library's error, not with an HTTP exception", async () => {
    @Injectable()
    class Stock {
      @DistributedLock('goods', { wait: 0 })
      async tried() {}
      @DistributedLock('goods', { wait: 20 })
      async waited() {}
      @DistributedLock('goods', { wait: 0, onBusy: (key) => new TypeError(`${key} is busy`) })
      async own() {}
    }
    const stock = await apps.provider(Stock);
    await using _lease = await (await apps.start({})).get(LockService).acquire('goods');
    await expect(stock.tried()).rejects.toThrow(LockBusyError);
    await expect(stock.waited()).rejects.toThrow(LockTimeoutError);
    await expect(stock.own()).rejects.toThrow(new TypeError('goods is busy'));
  });

  it("is skipped with onBusy: 'skip', at once or when its wait times out", async () => {
    let runs = 0;
    @Injectable()
    class Jobs {
      @DistributedLock('job', { wait: 0, onBusy: 'skip' })
      async once(): Promise<number | undefined> {
        return ++runs;
      }
      @DistributedLock('job', { wait: 20, onBusy: 'skip' })
      async later(): Promise<number | undefined> {
        return ++runs;
      }
      @DistributedLock('job', { wait: 60_000, onBusy: 'skip' })
      async patient(): Promise<number | undefined> {
        return ++runs;
      }
    }
    const jobs = await apps.provider(Jobs);
    const lease = await (await apps.start({})).get(LockService).acquire('job');
    expect([await jobs.once(), await jobs.later(), runs]).toEqual([undefined, undefined, 0]);
    await lease.release();
    expect([await jobs.once(), await jobs.patient()]).toEqual([1, 2]);
  });

  it('acquires several locks from the outermost to the innermost, and releases them all', async () => {
    @Injectable()
    class Stock {
      @DistributedLock((id) => `outer-${id}`)
      @DistributedLock('inner')
      async deduct(_id: string) {
        return [currentLease()?.key, currentLease('outer-7')?.held];
      }
    }
    const app = await apps.start({ providers: [Stock] });
    const locks = app.get(LockService);
    expect(await app.get(Stock).deduct('7')).toEqual(['inner', true]);
    expect([locks.held('inner'), locks.held('outer-7')]).toEqual([false, false]);
  });

  it('is locked in a subclass, which may add locks of its own', async () => {
    @Injectable()
    class Base {
      @DistributedLock('base')
      async inherited() {
        return currentLease()?.key;
      }
    }
    @Injectable()
    class Sub extends Base {
      @DistributedLock('sub')
      async own() {
        return [currentLease()?.key, await this.inherited()];
      }
    }
    const stock = await apps.provider(Sub);
    expect(await stock.inherited()).toBe('base');
    expect(await stock.own()).toEqual(['sub', 'base']);
  });

  it('is locked in a request-scoped provider', async () => {
    @Injectable({ scope: Scope.REQUEST })
    class Stock {
      @DistributedLock('goods')
      async deduct() {
        return currentLease()?.key;
      }
    }
    const app = await apps.start({ providers: [Stock] });
    const stock = await app.resolve(Stock, ContextIdFactory.create());
    expect(await stock.deduct()).toBe('goods');
  });

  it('acquires its lock at an exact path', async () => {
    const path = zk.path('curator');
    @Injectable()
    class Stock {
      @DistributedLock('goods', { path })
      async deduct() {
        return currentLease('goods')?.path;
      }
    }
    expect(await (await apps.provider(Stock)).deduct()).toBe(path);
  });

  it('is rejected if it returns an undeclared Observable, because the lock would not outlast it', async () => {
    @Injectable()
    class Stock {
      @DistributedLock('goods')
      async promised(): Promise<Observable<number>> {
        return of(1);
      }
    }
    const stock = await apps.provider(Stock);
    await expect(stock.promised()).rejects.toThrow(MisuseError);
    await expect(stock.promised()).rejects.toThrow(
      /Stock\.promised.*promised\(…\): Observable.*import type/,
    );
  });

  it('is rejected if it returns a generator, which would run after the release', async () => {
    const ran: string[] = [];
    @Injectable()
    class Stock {
      @DistributedLock('goods')
      async all() {
        return this.pieces();
      }

      private async *pieces() {
        ran.push('pieces');
        yield 1;
      }
    }
    const stock = await apps.provider(Stock);
    await expect(stock.all()).rejects.toThrow(MisuseError);
    await expect(stock.all()).rejects.toThrow(/Stock\.all.*generator/);
    expect(ran).toEqual([]);
  });
});

describe('a locked method that returns an Observable', () => {
  @Injectable()
  class Prices {
    calls = 0;

    @DistributedLock('prices', { wait: 0 })
    list(...prices: number[]): Observable<number> {
      this.calls++;
      return of(...prices);
    }

    @DistributedLock('prices', { wait: 0 })
    watch(): Observable<string | undefined> {
      return new Observable((subscriber) => subscriber.next(currentLease()?.key));
    }

    @DistributedLock('prices', { wait: 0, onBusy: 'skip' })
    skipped(): Observable<number> {
      return of(1);
    }
  }

  it('acquires the lock on subscription, once for each subscription', async () => {
    const prices = await apps.provider(Prices);
    const stream = prices.list(1, 2);
    expect(prices.calls).toBe(0);
    expect(await firstValueFrom(stream.pipe(toArray()))).toEqual([1, 2]);
    expect(await firstValueFrom(stream.pipe(toArray()))).toEqual([1, 2]);
    expect(prices.calls).toBe(2);
  });

  it('holds the lock until its subscriber unsubscribes', async () => {
    const app = await apps.start({ providers: [Prices] });
    const other = (await apps.start({})).get(LockService);
    const key = await new Promise((resolve) => {
      const subscription = app
        .get(Prices)
        .watch()
        .subscribe((seen) => {
          setImmediate(async () => {
            expect(await other.tryAcquire('prices')).toBeUndefined();
            subscription.unsubscribe();
            resolve(seen);
          });
        });
    });
    expect(key).toBe('prices');
    await using _lease = await other.acquire('prices', { wait: 5_000 });
  });

  it('leaves the queue if its subscriber unsubscribes while it waits', async () => {
    const app = await apps.start({ providers: [Waiting] });
    const other = (await apps.start({})).get(LockService);
    await using _lease = await other.acquire('prices');
    const subscription = app.get(Waiting).wait().subscribe();
    await untilQueued(app.client, 'prices', 2);
    subscription.unsubscribe();
    await untilQueued(app.client, 'prices', 1);
  });

  @Injectable()
  class Waiting {
    @DistributedLock('prices')
    wait(): Observable<never> {
      return NEVER;
    }
  }

  it('fails, or is empty, if the lock is held elsewhere', async () => {
    const app = await apps.start({ providers: [Prices] });
    const other = (await apps.start({})).get(LockService);
    await using _lease = await other.acquire('prices');
    const prices = app.get(Prices);
    await expect(firstValueFrom(prices.list(1))).rejects.toThrow(LockBusyError);
    expect(await firstValueFrom(prices.skipped().pipe(toArray()))).toEqual([]);
  });
});

describe('a locked job', () => {
  it('runs below and above @Interval and @Cron', async () => {
    const gates = { above: new Gate(), below: new Gate(), cron: new Gate() };
    const keys: Record<string, string | undefined> = {};
    const visit = (gate: keyof typeof gates) => {
      keys[gate] = currentLease()?.key;
      gates[gate].open();
      return gates[gate].pass();
    };
    @Injectable()
    class Jobs {
      @Interval(10)
      @DistributedLock('above', { wait: 0, onBusy: 'skip' })
      async above(): Promise<void> {
        await visit('above');
      }

      @DistributedLock('below', { wait: 0, onBusy: 'skip' })
      @Interval(10)
      async below(): Promise<void> {
        await visit('below');
      }

      @Cron('* * * * * *')
      @DistributedLock('cron', { wait: 0, onBusy: 'skip' })
      async cron(): Promise<void> {
        await visit('cron');
      }
    }
    await apps.start({ imports: [ScheduleModule.forRoot()], providers: [Jobs] });
    await Promise.all(Object.values(gates).map((gate) => gate.reached));
    expect(keys).toEqual({ above: 'above', below: 'below', cron: 'cron' });
  });
});

describe('a locked method whose lease is lost', () => {
  const run = async (onLost: 'throw' | 'ignore', outcome: () => Promise<unknown>) => {
    const gate = new Gate();
    @Injectable()
    class Stock {
      @DistributedLock('goods', { onLost })
      async deduct() {
        await gate.pass();
        return outcome();
      }

      @DistributedLock('goods', { onLost })
      watch(): Observable<never> {
        void gate.pass();
        return NEVER;
      }
    }
    const app = await apps.start({ providers: [Stock] });
    return { app, gate, stock: app.get(Stock) };
  };
  const lose = async ({ app, gate }: Awaited<ReturnType<typeof run>>) => {
    await gate.reached;
    await loseSession(zk, app.client);
    gate.open();
  };

  it("rejects although it has succeeded, with onLost: 'throw'", async () => {
    const test = await run('throw', async () => 'sold');
    const sold = test.stock.deduct();
    await Promise.all([lose(test), expect(sold).rejects.toThrow(LeaseLostError)]);
  });

  it("resolves with onLost: 'ignore'", async () => {
    const test = await run('ignore', async () => 'sold');
    const sold = test.stock.deduct();
    await lose(test);
    expect(await sold).toBe('sold');
  });

  it('rejects with its own error if it has one', async () => {
    const error = new Error('sold out');
    const test = await run('throw', () => Promise.reject(error));
    const sold = test.stock.deduct();
    await Promise.all([lose(test), expect(sold).rejects.toBe(error)]);
  });

  it('fails at once if it returns an Observable', async () => {
    const test = await run('throw', async () => undefined);
    const watched = firstValueFrom(test.stock.watch());
    await Promise.all([lose(test), expect(watched).rejects.toThrow(LeaseLostError)]);
  });
});
