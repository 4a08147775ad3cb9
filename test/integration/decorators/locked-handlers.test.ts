import { AsyncResource } from 'node:async_hooks';
import { setTimeout as delay } from 'node:timers/promises';
import {
  type ArgumentsHost,
  Body,
  type CallHandler,
  Catch,
  Controller,
  type ExecutionContext,
  Get,
  HttpException,
  Inject,
  Injectable,
  Logger,
  type MiddlewareConsumer,
  Module,
  type NestInterceptor,
  Param,
  type PipeTransform,
  Post,
  UseInterceptors,
} from '@nestjs/common';
import { APP_FILTER, BaseExceptionFilter } from '@nestjs/core';
import {
  currentLease,
  DistributedLock,
  DistributedSemaphore,
  LockService,
  WaitCancelledError,
  ZkExceptionFilter,
} from 'nestjs-zookeeper';
import {
  catchError,
  concat,
  finalize,
  firstValueFrom,
  from,
  map,
  mergeMap,
  Observable,
  of,
  race,
  retry,
  throwError,
} from 'rxjs';
import { describe, expect, vi } from 'vitest';
import { call, get, post } from '../../support/http-calls.js';
import { eventually } from '../../support/eventually.js';
import { Gate } from '../../support/gate.js';
import { untilQueued, useApps } from '../../support/nest-apps.js';
import { useServer } from '../../support/servers.js';
import { afterEach, it } from '../../support/virtual-time.js';

const apps = useApps(useServer());
afterEach(() => vi.restoreAllMocks());

@Injectable()
class Upper implements PipeTransform<string, string> {
  transform(value: string): string {
    return value.toUpperCase();
  }
}

const paramOf = (context: ExecutionContext) =>
  context.switchToHttp().getRequest<{ params: { id: string } }>().params.id;

describe('a locked HTTP handler', () => {
  it('waits, although its request arrives in the call chain of a holder', async () => {
    let [inside, most] = [0, 0];
    // As a connection that a pool opens for a query under the lock, and whose callback calls next() of later requests.
    let connection: AsyncResource | undefined;
    @Controller()
    class Shop {
      @Get('fixed')
      @DistributedLock({ keyFromContext: () => 'goods' })
      async fixed() {
        await this.work();
      }

      @Get('argument/:id')
      @DistributedLock((id) => id)
      async argument(@Param('id') _id: string) {
        await this.work();
      }

      private async work() {
        connection ??= new AsyncResource('connection');
        most = Math.max(most, ++inside);
        await delay(10_000);
        inside--;
      }
    }
    const passes = (_: unknown, __: unknown, next: () => void) =>
      connection ? connection.runInAsyncScope(next) : next();
    @Module({ controllers: [Shop] })
    class ShopModule {
      configure(consumer: MiddlewareConsumer) {
        consumer.apply(passes).forRoutes(Shop);
      }
    }
    const app = await apps.start({ imports: [ShopModule] });
    const first = get(app, '/fixed');
    await eventually(() => expect(inside).toBe(1));
    await Promise.all([first, get(app, '/fixed'), get(app, '/argument/goods')]);
    expect(most).toBe(1);
  });

  it('enters the lock that an interceptor of the controller holds around it', async () => {
    let locks: LockService | undefined;
    @Controller()
    @UseInterceptors({
      intercept: (_: unknown, next: CallHandler) =>
        from(locks!.withLock('goods', () => firstValueFrom(next.handle()))),
    })
    class Shop {
      @Get('same')
      @DistributedLock('goods')
      async same() {
        return 'entered';
      }

      @Get('other')
      @DistributedLock('other')
      async other() {
        return String(currentLease('goods')?.held);
      }
    }
    const app = await apps.start({ controllers: [Shop] });
    locks = app.get(LockService);
    expect(await get(app, '/same')).toMatchObject({ status: 200, text: 'entered' });
    expect(await get(app, '/other')).toMatchObject({ status: 200, text: 'true' });
  });

  it('makes its key from piped arguments and its instance, or from the context before the pipes', async () => {
    @Controller()
    class Shop {
      private readonly region = 'north';

      @Post('body/:id')
      @DistributedLock((id, body) => `${id}/${body.size}`)
      async fromBody(@Param('id', Upper) id: string, @Body() body: { size: number }) {
        return [id, body.size, currentLease()?.key];
      }

      @Get('lock/:id')
      @DistributedLock(function (id) {
        return `${this.region}:${id}`;
      })
      async lock(@Param('id', Upper) id: string) {
        return [id, currentLease()?.key];
      }

      @Get('permit/:id')
      @DistributedSemaphore(
        function (id) {
          return `${this.region}:${id}`;
        },
        { permits: 1 },
      )
      async permit(@Param('id', Upper) id: string) {
        return [id, currentLease()?.key];
      }

      @Get('lock-context/:id')
      @DistributedLock({ keyFromContext: paramOf })
      async lockFromContext(@Param('id', Upper) id: string) {
        return [id, currentLease()?.key];
      }

      @Get('permit-context/:id')
      @DistributedSemaphore({ keyFromContext: paramOf, permits: 1 })
      async permitFromContext(@Param('id', Upper) id: string) {
        return [id, currentLease()?.key];
      }
    }
    const app = await apps.start({ controllers: [Shop] });
    expect((await post(app, '/body/abc', { size: 4 })).body).toEqual(['ABC', 4, 'ABC/4']);
    for (const path of ['/lock/a', '/permit/a']) {
      expect((await get(app, path)).body).toEqual(['A', 'north:A']);
    }
    for (const path of ['/lock-context/a', '/permit-context/a']) {
      expect((await get(app, path)).body).toEqual(['A', 'a']);
    }
    const shop = app.get(Shop);
    await expect(shop.lockFromContext('a')).rejects.toThrow(
      /@DistributedLock on Shop\.lockFromContext.*ExecutionContext/s,
    );
    await expect(shop.permitFromContext('a')).rejects.toThrow(
      /@DistributedSemaphore on Shop\.permitFromContext.*ExecutionContext/,
    );
  });

  it('answers 400 if the key of a request is missing or invalid', async () => {
    @Controller()
    class Shop {
      constructor(@Inject(LockService) private readonly locks: LockService) {}
      @Post('arguments')
      @DistributedLock((body) => body.key)
      async fromArguments(@Body() body: { key: string[] }) {
        return body;
      }
      @Post('context')
      @DistributedLock({
        keyFromContext: (context) =>
          context.switchToHttp().getRequest<{ body: { key: string[] } }>().body.key,
      })
      async fromContext() {}
      @Post('service')
      async fromService(@Body() { key }: { key: string[] }) {
        return this.locks.withLock(key, () => 'locked');
      }
    }
    const app = await apps.start({
      controllers: [Shop],
      providers: [{ provide: APP_FILTER, useClass: ZkExceptionFilter }],
    });
    for (const key of [undefined, null, '', 'a\0', 'a'.repeat(1025), ['a', 'a'], []]) {
      for (const route of ['arguments', 'context', 'service']) {
        const { status, body } = await post(app, `/${route}`, { key });
        expect([route, key, status, body]).toMatchObject([route, key, 400, { code: 'BAD_KEY' }]);
      }
    }
  });

  it('holds its lock until all interceptors of its method are done, above and below', async () => {
    const done: boolean[] = [];
    @Injectable()
    class Transaction implements NestInterceptor {
      constructor(@Inject(LockService) private readonly locks: LockService) {}
      intercept(_context: ExecutionContext, next: CallHandler) {
        return next.handle().pipe(finalize(() => done.push(this.locks.held('goods'))));
      }
    }
    @Controller()
    class Shop {
      @Get('above/:id')
      @DistributedLock((id) => id)
      @UseInterceptors(Transaction)
      async above(@Param('id') _id: string) {}

      @Get('below/:id')
      @UseInterceptors(Transaction)
      @DistributedLock((id) => id)
      async below(@Param('id') _id: string) {}

      @Get('fixed/above')
      @DistributedLock('goods')
      @UseInterceptors(Transaction)
      async fixedAbove() {}

      @Get('fixed/below')
      @UseInterceptors(Transaction)
      @DistributedLock('goods')
      async fixedBelow() {}
    }
    const app = await apps.start({ controllers: [Shop], providers: [Transaction] });
    const paths = ['/above/goods', '/below/goods', '/fixed/above', '/fixed/below'];
    for (const path of paths) expect((await get(app, path)).status).toBe(200);
    expect(done).toEqual([true, true, true, true]);
  });

  it('acquires several locks from the outermost to the innermost, and releases the outer ones if an inner one is busy', async () => {
    const taken: string[] = [];
    const named = (key: string) => (taken.push(key), key);
    @Controller()
    class Shop {
      @Get(':id')
      @DistributedLock({ keyFromContext: () => named('first') })
      @DistributedLock((id) => named(`second-${id}`))
      @DistributedLock({ keyFromContext: () => named('third'), wait: 0 })
      async buy(@Param('id') _id: string) {
        return ['first', 'second-7', 'third'].map((key) => currentLease(key)?.held);
      }
    }
    const app = await apps.start({ controllers: [Shop] });
    expect((await get(app, '/7')).body).toEqual([true, true, true]);
    expect(taken).toEqual(['first', 'second-7', 'third']);
    const other = (await apps.start({})).get(LockService);
    await using _inner = await other.acquire('third');
    expect((await get(app, '/7')).status).toBe(409);
    await using _outer = await other.acquire(['first', 'second-7'], { wait: 0 });
  });

  it.each<[string, (id: string) => string | string[]]>([
    ['one key', (id) => id],
    ['a list of keys', (id) => [id, `${id}-stock`]],
  ])('acquires its lock once although an interceptor subscribes again (%s)', async (_, keyOf) => {
    let attempts = 0;
    @Controller()
    class Shop {
      @Get(':id')
      @UseInterceptors({
        intercept: (_: unknown, next: { handle(): ReturnType<typeof throwError> }) =>
          next.handle().pipe(retry(2)),
      })
      @DistributedLock(keyOf)
      async buy(@Param('id') _id: string) {
        if (++attempts < 3) throw new Error('try again');
        return attempts;
      }
    }
    const app = await apps.start({ controllers: [Shop] });
    expect(await get(app, '/7')).toMatchObject({ status: 200, text: '3' });
    expect(app.get(LockService).held('7')).toBe(false);
  });

  it.each(['/fixed', '/argument/goods'])(
    'runs one call at a time although an interceptor unsubscribes and subscribes again (%s)',
    async (path) => {
      const first = new Gate();
      let [calls, inside, most] = [0, 0, 0];
      const work = async () => {
        most = Math.max(most, ++inside);
        if (++calls === 1) await first.pass();
        inside--;
      };
      const GivesUp = () =>
        UseInterceptors({
          intercept: (_: unknown, next: CallHandler) =>
            race(next.handle(), from(first.reached).pipe(mergeMap(() => throwError(Error)))).pipe(
              catchError(() => {
                // Long enough for a second call that does not wait for the first to begin.
                setTimeout(first.open, 10_000);
                return next.handle();
              }),
            ),
        });
      @Controller()
      class Shop {
        @Get('fixed')
        @GivesUp()
        @DistributedLock('goods')
        async fixed() {
          await work();
        }

        @Get('argument/:id')
        @GivesUp()
        @DistributedLock((id) => id)
        async argument(@Param('id') _id: string) {
          await work();
        }
      }
      const app = await apps.start({ controllers: [Shop] });
      expect((await get(app, path)).status).toBe(200);
      expect({ calls, most }).toEqual({ calls: 2, most: 1 });
      expect(app.get(LockService).held('goods')).toBe(false);
    },
  );

  it.each(['/fixed', '/argument/goods', '/stream', '/fails'])(
    'holds its lock until a promise that an interceptor or the method emits has settled (%s)',
    async (path) => {
      let [calls, inside, most] = [0, 0, 0];
      const commit = async () => {
        most = Math.max(most, ++inside);
        await delay(10_000);
        inside--;
        calls++;
        return 'committed';
      };
      const Commits = () =>
        UseInterceptors({
          intercept: (_: unknown, next: CallHandler) => next.handle().pipe(map(commit)),
        });
      @Controller()
      class Shop {
        @Get('fixed')
        @Commits()
        @DistributedLock('goods')
        async fixed() {}

        @Get('argument/:id')
        @DistributedLock((id) => id)
        @Commits()
        async argument(@Param('id') _id: string) {}

        @Get('stream')
        @DistributedLock('goods')
        stream(): Observable<unknown> {
          // As a query builder: each call of `then` runs it.
          const query = {
            // oxlint-disable-next-line unicorn/no-thenable
            then: (resolve: (value: unknown) => void) => void commit().then(resolve),
          };
          return of(query);
        }

        @Get('fails')
        @DistributedLock('goods')
        fails(): Observable<unknown> {
          return concat(
            of(commit()),
            throwError(() => new HttpException('late', 409)),
          );
        }
      }
      const app = await apps.start({ controllers: [Shop] });
      const answers = await Promise.all([1, 2, 3].map(() => get(app, path)));
      const [status, text] = path === '/fails' ? [409, 'late'] : [200, 'committed'];
      for (const answer of answers) {
        expect(answer).toMatchObject({ status, text: expect.stringContaining(text) as string });
      }
      expect({ calls, most }).toEqual({ calls: 3, most: 1 });
      expect(app.get(LockService).held('goods')).toBe(false);
    },
  );

  it.each(['/fixed', '/argument/goods', '/late-stream'])(
    'holds its lock until an interceptor of the method has committed, although nobody waits for the answer (%s)',
    async (path) => {
      let [calls, inside, most] = [0, 0, 0];
      let subscribed = false;
      const commit = async (answer: unknown) => {
        most = Math.max(most, ++inside);
        await delay(10_000);
        inside--;
        calls++;
        return answer;
      };
      /** An interceptor of the controller, which answers before the commit begins. */
      const GivesUp = () =>
        UseInterceptors({
          intercept: (_: unknown, next: CallHandler) =>
            race(
              next.handle(),
              from(delay(2_000)).pipe(mergeMap(() => throwError(() => new HttpException('', 408)))),
            ),
        });
      const Commits = () =>
        UseInterceptors({
          intercept: (_: unknown, next: CallHandler) => next.handle().pipe(mergeMap(commit)),
        });
      @Controller()
      @GivesUp()
      class Shop {
        @Get('fixed')
        @Commits()
        @DistributedLock('goods')
        async fixed() {
          await delay(1_000);
        }

        @Get('argument/:id')
        @Commits()
        @DistributedLock((id) => id)
        async argument(@Param('id') _id: string) {
          await delay(1_000);
        }

        @Get('late-stream')
        @DistributedLock('goods')
        async lateStream() {
          await delay(3_000);
          return new Observable(() => void (subscribed = true));
        }
      }
      const app = await apps.start({ controllers: [Shop] });
      const first = await get(app, path);
      const second = await get(app, path);
      expect([first.status, second.status]).toEqual([408, 408]);
      const locks = app.get(LockService);
      const lease = await locks.acquire('goods');
      // The second call has given up while it waited.
      const streams = path === '/late-stream';
      expect({ calls, most, subscribed }).toEqual({
        calls: streams ? 0 : 1,
        most: streams ? 0 : 1,
        subscribed: false,
      });
      await lease.release();
    },
  );

  it('logs the error of an answer that nobody waits for', async () => {
    const logged = vi.spyOn(Logger.prototype, 'error').mockImplementation(() => {});
    @Controller()
    @UseInterceptors({
      intercept: (_: unknown, next: CallHandler) =>
        race(next.handle(), from(delay(500)).pipe(map(() => 'late'))),
    })
    class Shop {
      @Get()
      @DistributedLock('goods')
      async sell() {
        await delay(1_000);
        throw new Error('the stock\nis gone');
      }

      @Get('waiting')
      @DistributedLock('goods')
      async wait() {}

      @Get('commit')
      @UseInterceptors({
        intercept: (_: unknown, next: CallHandler) =>
          next.handle().pipe(
            map(async () => {
              await delay(1);
              throw new Error('no commit');
            }),
          ),
      })
      @DistributedLock('goods')
      async commit() {
        await delay(1_000);
      }
    }
    const app = await apps.start({ controllers: [Shop] });
    const lease = await app.get(LockService).acquire('goods');
    await get(app, '/waiting');
    await lease.release();
    expect((await get(app, '/')).text).toBe('late');
    await expect
      .poll(() => logged.mock.calls.map(([line]) => line as string))
      .toEqual([
        'Shop.sell failed after its caller had stopped waiting for the answer: Error: the stock is gone',
      ]);
    await get(app, '/commit');
    await expect
      .poll(() => logged.mock.lastCall?.[0] as string)
      .toBe(
        'Shop.commit failed after its caller had stopped waiting for the answer: Error: no commit',
      );
  });

  it('does not abort the signal of a lease whose answer an interceptor has taken', async () => {
    let signal: AbortSignal | undefined;
    @Controller()
    @UseInterceptors({
      intercept: async (_: unknown, next: CallHandler) => of(await firstValueFrom(next.handle())),
    })
    class Shop {
      @Get()
      @DistributedLock('goods')
      async sell() {
        ({ signal } = currentLease()!);
        return 'sold';
      }
    }
    const app = await apps.start({ controllers: [Shop] });
    expect(await get(app, '/')).toMatchObject({ status: 200, text: 'sold' });
    expect(app.get(LockService).held('goods')).toBe(false);
    expect(signal!.aborted).toBe(false);
  });

  it('holds its lock for a promise whose subscriber has left', async () => {
    const gate = new Gate();
    @Injectable()
    class Shop {
      @DistributedLock('goods')
      sell(): Observable<Promise<void>> {
        return of(gate.pass());
      }
    }
    const app = await apps.start({ providers: [Shop] });
    const promise = await firstValueFrom(
      app
        .get(Shop)
        .sell()
        .pipe(map((sold) => [sold])),
    );
    const locks = app.get(LockService);
    expect(locks.held('goods')).toBe(true);
    gate.open();
    await Promise.all(promise);
    await expect.poll(() => locks.held('goods')).toBe(false);
  });

  it('acquires its lock in a subclass that inherits it, or that overrides and calls it', async () => {
    class Base {
      @Get('inherited/:id')
      @DistributedLock((id) => id)
      async inherited(@Param('id') id: string) {
        return [id, currentLease()?.key];
      }

      @DistributedLock((id) => id)
      async overridden(id: string) {
        return [id, currentLease()?.key];
      }
    }
    @Controller()
    class Shop extends Base {
      @Get('overridden/:id')
      override async overridden(@Param('id') id: string) {
        const before = currentLease()?.key;
        return [before, ...(await super.overridden(id))];
      }

      @Get('own')
      @DistributedLock('own', { wait: 0 })
      async own() {
        return [currentLease()?.key, ...(await this.inherited('7'))];
      }
    }
    const app = await apps.start({ controllers: [Shop] });
    expect((await get(app, '/inherited/7')).body).toEqual(['7', '7']);
    expect((await get(app, '/overridden/7')).body).toEqual([null, '7', '7']);
    expect((await get(app, '/own')).body).toEqual(['own', '7', '7']);
  });

  it('answers 500 if it returns a generator, which would run after the release', async () => {
    const ran: number[] = [];
    @Controller()
    class Prices {
      @Get()
      @DistributedLock('prices')
      async all() {
        return (async function* () {
          ran.push(1);
          yield 'price';
        })();
      }
    }
    const app = await apps.start({ controllers: [Prices] });
    expect((await get(app, '/')).status).toBe(500);
    expect(ran).toEqual([]);
  });
});

describe('a handler whose lock is held elsewhere', () => {
  @Controller()
  class Shop {
    @Get('busy')
    @DistributedLock('goods', { wait: 0 })
    async busy() {}

    @Get('busy/:id')
    @DistributedLock((id) => id, { wait: 0 })
    async busyByArgument(@Param('id') _id: string) {}

    @Get('timeout')
    @DistributedLock('goods', { wait: 20_000 })
    async timeout() {}

    @Get('own')
    @DistributedLock('goods', { wait: 0, onBusy: (key) => new HttpException(`${key} locked`, 423) })
    async own() {}

    @Get('wait')
    @DistributedLock('goods')
    async wait() {
      return 'done';
    }

    @Get('wait/:id')
    @DistributedLock((id) => id)
    async waitByArgument(@Param('id') _id: string) {}
  }

  it('answers 409 at once, 503 with Retry-After when its wait times out, or as onBusy and mapError say', async () => {
    const mapError = ({ code, key }: { code: string; key?: string }) =>
      code === 'BUSY' ? new HttpException(`${key} is taken`, 423) : undefined;
    const app = await apps.start({ controllers: [Shop] });
    const mapped = await apps.start({ controllers: [Shop] }, { mapError });
    await using _lease = await (await apps.start({})).get(LockService).acquire('goods');
    for (const path of ['/busy', '/busy/goods']) {
      const busy = { statusCode: 409, code: 'BUSY' };
      expect(await get(app, path)).toMatchObject({ status: 409, body: busy });
    }
    const own = { status: 423, body: { message: 'goods locked' } };
    expect(await get(app, '/own')).toMatchObject(own);
    expect(await get(mapped, '/busy')).toMatchObject({
      status: 423,
      body: { message: 'goods is taken' },
    });
    for (const timed of [app, mapped]) {
      const headers = { 'retry-after': '1' };
      const answer = { status: 503, headers, body: { code: 'TIMEOUT' } };
      expect(await get(timed, '/timeout')).toMatchObject(answer);
    }
  });

  it.each(['/wait', '/wait/goods'])(
    'leaves the queue when its client disconnects, which is status 499 in filters, and is not logged as an error (%s)',
    async (path) => {
      const caught: unknown[] = [];
      @Catch()
      class Seeing extends BaseExceptionFilter {
        override catch(exception: unknown, host: ArgumentsHost) {
          caught.push(exception);
          super.catch(exception, host);
        }
      }
      const logged = vi.spyOn(Logger.prototype, 'error').mockImplementation(() => {});
      const app = await apps.start({
        controllers: [Shop],
        providers: [{ provide: APP_FILTER, useClass: Seeing }],
      });
      await using _lease = await (await apps.start({})).get(LockService).acquire('goods');
      const caller = call(app, path);
      await untilQueued(app.client, 'goods', 2);
      caller.leave();
      await untilQueued(app.client, 'goods', 1);
      await expect.poll(() => caught).toHaveLength(1);
      const [exception] = caught as [HttpException];
      expect(exception).toBeInstanceOf(HttpException);
      expect(exception.getStatus()).toBe(499);
      expect(exception.cause).toBeInstanceOf(WaitCancelledError);
      expect(logged).not.toHaveBeenCalled();
    },
  );
});
