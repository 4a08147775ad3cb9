import {
  type ArgumentsHost,
  Body,
  type CallHandler,
  Catch,
  Controller,
  type ExecutionContext,
  Get,
  HttpCode,
  HttpException,
  Inject,
  Injectable,
  Logger,
  type NestInterceptor,
  Param,
  type PipeTransform,
  Post,
  Scope,
  SetMetadata,
  UseGuards,
  UseInterceptors,
} from '@nestjs/common';
import { APP_FILTER, BaseExceptionFilter, REQUEST, Reflector } from '@nestjs/core';
import {
  currentLease,
  DistributedLock,
  DistributedSemaphore,
  LockBusyError,
  LockService,
  WaitCancelledError,
  ZkExceptionFilter,
} from 'nestjs-zookeeper';
import { catchError, finalize, from, mergeMap, race, retry, throwError } from 'rxjs';
import { describe, expect, vi } from 'vitest';
import { call, get, post } from '../../support/http-calls.js';
import { Gate, untilQueued, useApps } from '../../support/nest-apps.js';
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

  it('answers 400 if the key of a request is invalid', async () => {
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
    for (const key of ['', 'a\0', 'a'.repeat(1025), ['a', 'a'], []]) {
      for (const route of ['arguments', 'context', 'service']) {
        const { status, body } = await post(app, `/${route}`, { key });
        expect([route, key, status, body]).toMatchObject([route, key, 400, { code: 'BAD_KEY' }]);
      }
    }
  });

  it.each([undefined, 42])('fails if its key function returns %j', async (key) => {
    @Controller()
    class Shop {
      @Get()
      @DistributedLock(() => key as never)
      async find() {}
    }
    const app = await apps.start({ controllers: [Shop] });
    expect((await get(app, '/')).status).toBe(500);
    await expect(app.get(Shop).find()).rejects.toThrow(/key.*Shop\.find.*non-empty string/);
  });

  it('keeps the effect of other decorators above and below it', async () => {
    const Role = (role: string) => SetMetadata('role', role);
    @Injectable()
    class RoleGuard {
      constructor(@Inject(Reflector) private readonly reflector: Reflector) {}
      canActivate(context: { getHandler(): () => unknown }): boolean {
        return this.reflector.get('role', context.getHandler()) === 'buyer';
      }
    }
    @Controller()
    class Shop {
      @Get('above')
      @HttpCode(202)
      @UseGuards(RoleGuard)
      @Role('buyer')
      @DistributedLock((id) => id)
      async above(@Param('id', { transform: () => 'goods' }) id: string) {
        return [id, currentLease()?.key];
      }

      @DistributedLock((id) => id)
      @Get('below')
      @HttpCode(202)
      @UseGuards(RoleGuard)
      @Role('buyer')
      async below(@Param('id', { transform: () => 'goods' }) id: string) {
        return [id, currentLease()?.key];
      }

      @Get('refused')
      @DistributedLock('goods')
      @UseGuards(RoleGuard)
      async refused() {}
    }
    const app = await apps.start({ controllers: [Shop] });
    for (const path of ['/above', '/below']) {
      expect(await get(app, path)).toMatchObject({ status: 202, body: ['goods', 'goods'] });
    }
    expect((await get(app, '/refused')).status).toBe(403);
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

  it("passes on the method's own errors unchanged", async () => {
    @Controller()
    class Shop {
      @Get('http')
      @DistributedLock('goods')
      async http(): Promise<void> {
        throw new HttpException('sold out', 410);
      }

      @Get('busy')
      @DistributedLock('goods')
      async busy(): Promise<void> {
        throw new LockBusyError("somebody else's");
      }
    }
    const app = await apps.start({ controllers: [Shop] });
    expect((await get(app, '/http')).status).toBe(410);
    expect((await get(app, '/busy')).status).toBe(500);
    const direct = app.get(Shop).http();
    await expect(direct).rejects.toMatchObject({ message: 'sold out', status: 410 });
  });

  it('acquires its own lock and the lock of a locked provider that it calls, once each', async () => {
    @Injectable()
    class Stock {
      @DistributedLock('stock', { wait: 0 })
      async deduct(): Promise<(string | undefined)[]> {
        return [currentLease()?.key, currentLease('goods')?.key];
      }
    }
    @Controller()
    class Shop {
      constructor(
        private readonly stock: Stock,
        private readonly locks: LockService,
      ) {}

      @Get()
      @DistributedLock('goods', { wait: 0 })
      async buy(depth?: number): Promise<unknown> {
        if (depth) return currentLease()?.key;
        const [inStock, again] = [await this.stock.deduct(), await this.buy(1)];
        return { inStock, again, left: [this.locks.held('stock'), this.locks.held('goods')] };
      }
    }
    const app = await apps.start({ controllers: [Shop], providers: [Stock] });
    const { body } = await get(app, '/');
    expect(body).toEqual({ inStock: ['stock', 'goods'], again: 'goods', left: [false, true] });
    expect(app.get(LockService).held('goods')).toBe(false);
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

  it('acquires its lock once although an interceptor subscribes again', async () => {
    let attempts = 0;
    @Controller()
    class Shop {
      @Get(':id')
      @UseInterceptors({
        intercept: (_: unknown, next: { handle(): ReturnType<typeof throwError> }) =>
          next.handle().pipe(retry(2)),
      })
      @DistributedLock((id) => id)
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

  it('acquires its lock in a request-scoped controller', async () => {
    @Controller({ scope: Scope.REQUEST })
    class Shop {
      constructor(@Inject(REQUEST) private readonly request: { url: string }) {}

      @Get(':id')
      @DistributedLock((id) => id)
      async buy(@Param('id') id: string) {
        return [this.request.url, currentLease(id)?.held];
      }
    }
    const app = await apps.start({ controllers: [Shop] });
    expect((await get(app, '/7')).body).toEqual(['/7', true]);
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

  it('keeps its lock until it is done, although its client disconnects', async () => {
    const gate = new Gate();
    @Controller()
    class Shop {
      @Get()
      @DistributedLock('goods')
      async buy() {
        await gate.pass();
      }
    }
    const app = await apps.start({ controllers: [Shop] });
    const other = (await apps.start({})).get(LockService);
    const caller = call(app, '/');
    await gate.reached;
    caller.leave();
    const waiting = other.acquire('goods');
    await untilQueued(app.client, 'goods', 2);
    expect(app.get(LockService).held('goods')).toBe(true);
    gate.open();
    await (await waiting).release();
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

  it('waits until the lock is granted', async () => {
    const app = await apps.start({ controllers: [Shop] });
    const lease = await (await apps.start({})).get(LockService).acquire('goods');
    const answer = get(app, '/wait');
    await untilQueued(app.client, 'goods', 2);
    await lease.release();
    expect((await answer).text).toBe('done');
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

  it('answers through ZkExceptionFilter if a provider or the LockService acquires the lock', async () => {
    @Injectable()
    class Stock {
      @DistributedLock('goods', { wait: 0 })
      async deduct() {}
    }
    @Controller()
    class Warehouse {
      constructor(
        private readonly stock: Stock,
        private readonly locks: LockService,
      ) {}

      @Get('provider')
      async provider() {
        await this.stock.deduct();
      }

      @Get('service')
      async service() {
        await this.locks.withLock('goods', { wait: 20 }, () => {});
      }
    }
    const app = await apps.start({
      controllers: [Warehouse],
      providers: [Stock, { provide: APP_FILTER, useClass: ZkExceptionFilter }],
    });
    await using _lease = await (await apps.start({})).get(LockService).acquire('goods');
    expect(await get(app, '/provider')).toMatchObject({ status: 409, body: { code: 'BUSY' } });
    expect(await get(app, '/service')).toMatchObject({
      status: 503,
      headers: { 'retry-after': '1' },
    });
  });
});
