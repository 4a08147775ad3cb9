import { Inject, Injectable, Scope } from '@nestjs/common';
import { ContextIdFactory } from '@nestjs/core';
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
import { describe, expect } from 'vitest';
import { Gate } from '../../support/gate.js';
import { loseSession, untilQueued, useApps } from '../../support/nest-apps.js';
import { useServer } from '../../support/servers.js';
import { it } from '../../support/virtual-time.js';

const zk = useServer();
const apps = useApps(zk);

describe('a locked method of a provider', () => {
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

  it('is locked in a request-scoped provider, and at an exact path', async () => {
    const path = zk.path('curator');
    @Injectable({ scope: Scope.REQUEST })
    class Stock {
      @DistributedLock('goods', { path })
      async deduct() {
        return currentLease('goods')?.path;
      }
    }
    const app = await apps.start({ providers: [Stock] });
    const stock = await app.resolve(Stock, ContextIdFactory.create());
    expect(await stock.deduct()).toBe(path);
  });

  it('is rejected if it returns a generator or an undeclared Observable, because the lock would not outlast it', async () => {
    const ran: string[] = [];
    @Injectable()
    class Stock {
      @DistributedLock('goods')
      async promised(): Promise<Observable<number>> {
        return of(1);
      }

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
    await expect(stock.promised()).rejects.toThrow(MisuseError);
    await expect(stock.promised()).rejects.toThrow(
      /Stock\.promised.*promised\(…\): Observable.*import type/,
    );
    await expect(stock.all()).rejects.toThrow(MisuseError);
    await expect(stock.all()).rejects.toThrow(/Stock\.all.*generator/);
    expect(ran).toEqual([]);
  });
});

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

  @DistributedLock('prices')
  endless(): Observable<never> {
    return NEVER;
  }
}

describe('a locked method that returns an Observable', () => {
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
    const keys: (string | undefined)[] = [];
    const subscription = app
      .get(Prices)
      .watch()
      .subscribe((key) => keys.push(key));
    await expect.poll(() => keys).toEqual(['prices']);
    expect(await other.tryAcquire('prices')).toBeUndefined();
    subscription.unsubscribe();
    await using _lease = await other.acquire('prices', { wait: 100 });
  });

  it('leaves the queue if its subscriber unsubscribes while it waits', async () => {
    const app = await apps.start({ providers: [Prices] });
    const other = (await apps.start({})).get(LockService);
    await using _lease = await other.acquire('prices');
    const subscription = app.get(Prices).endless().subscribe();
    await untilQueued(app.client, 'prices', 2);
    subscription.unsubscribe();
    await untilQueued(app.client, 'prices', 1);
  });

  it('fails, or is empty, if the lock is held elsewhere', async () => {
    const app = await apps.start({ providers: [Prices] });
    const other = (await apps.start({})).get(LockService);
    await using _lease = await other.acquire('prices');
    const prices = app.get(Prices);
    await expect(firstValueFrom(prices.list(1))).rejects.toThrow(LockBusyError);
    expect(await firstValueFrom(prices.skipped().pipe(toArray()))).toEqual([]);
  });
});

describe('a locked method whose lease is lost', () => {
  const own = new Error('sold out');
  const cases: [string, 'throw' | 'ignore', () => Promise<unknown>, unknown][] = [
    ['rejects although it has succeeded', 'throw', async () => 'sold', LeaseLostError],
    ["resolves with onLost: 'ignore'", 'ignore', async () => 'sold', 'sold'],
    ['rejects with its own error if it has one', 'throw', () => Promise.reject(own), own],
  ];
  it.each(cases)('%s', async (_, onLost, outcome, expected) => {
    const gate = new Gate();
    @Injectable()
    class Stock {
      @DistributedLock('goods', { onLost })
      async deduct() {
        await gate.pass();
        return outcome();
      }
    }
    const app = await apps.start({ providers: [Stock] });
    const sold = app
      .get(Stock)
      .deduct()
      .catch((error: unknown) => error);
    await gate.reached;
    await loseSession(zk, app.client);
    gate.open();
    if (expected === LeaseLostError) expect(await sold).toBeInstanceOf(LeaseLostError);
    else expect(await sold).toBe(expected);
  });

  it('fails at once if it returns an Observable', async () => {
    const app = await apps.start({ providers: [Prices] });
    const watched = expect(firstValueFrom(app.get(Prices).endless())).rejects.toThrow(
      LeaseLostError,
    );
    await expect.poll(() => app.get(LockService).held('prices')).toBe(true);
    await Promise.all([loseSession(zk, app.client), watched]);
  });
});
