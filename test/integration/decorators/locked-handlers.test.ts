import {
  Body,
  type CallHandler,
  Controller,
  type ExecutionContext,
  Get,
  HttpCode,
  HttpException,
  Inject,
  Injectable,
  type NestInterceptor,
  Param,
  type PipeTransform,
  Post,
  Scope,
  SetMetadata,
  UseGuards,
  UseInterceptors,
} from '@nestjs/common';
import { APP_FILTER, REQUEST, Reflector } from '@nestjs/core';
import {
  currentLease,
  DistributedLock,
  DistributedSemaphore,
  LockBusyError,
  LockService,
  ZkExceptionFilter,
} from 'nestjs-zookeeper';
import { catchError, finalize, from, mergeMap, race, retry, throwError } from 'rxjs';
import request from 'supertest';
import { describe, expect, it } from 'vitest';
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

describe('a locked HTTP handler', () => {
  it('runs one request at a time on all instances together', async () => {
    let running = 0;
    let most = 0;
    let sold = 0;
    @Controller()
    class Shop {
      @Post('purchase/:goodsNo')
      @DistributedLock((goodsNo) => `goods:${goodsNo}`)
      async purchase(@Param('goodsNo') goodsNo: string) {
        most = Math.max(most, ++running);
        const before = sold;
        await new Promise(setImmediate);
        sold = before + 1;
        running--;
        return { goodsNo, held: currentLease(`goods:${goodsNo}`)?.held };
      }
    }
    const instances = [
      await apps.listen({ controllers: [Shop] }),
      await apps.listen({ controllers: [Shop] }),
    ];
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, i) => request(instances[i % 2]!.url).post('/purchase/42')),
    );
    for (const { status, body } of answers) {
      expect([status, body]).toEqual([201, { goodsNo: '42', held: true }]);
    }
    expect([most, sold]).toEqual([1, 20]);
  });

  it('makes its key from piped arguments', async () => {
    @Controller()
    class Shop {
      @Post(':goodsNo')
      @DistributedLock((goodsNo, body) => `${goodsNo}/${body.size}`)
      async purchase(@Param('goodsNo', Upper) goodsNo: string, @Body() body: { size: number }) {
        return [goodsNo, body.size, currentLease()?.key];
      }
    }
    const app = await apps.listen({ controllers: [Shop] });
    const { body } = await request(app.url).post('/abc').send({ size: 4 });
    expect(body).toEqual(['ABC', 4, 'ABC/4']);
  });

  it('makes its key from the context, before the pipes', async () => {
    @Controller()
    class Shop {
      @Get(':goodsNo')
      @DistributedLock({
        keyFromContext: (context) =>
          context.switchToHttp().getRequest<{ params: { goodsNo: string } }>().params.goodsNo,
      })
      async find(@Param('goodsNo', Upper) goodsNo: string) {
        return [goodsNo, currentLease()?.key];
      }
    }
    const app = await apps.listen({ controllers: [Shop] });
    expect((await request(app.url).get('/abc')).body).toEqual(['ABC', 'abc']);
    await expect(app.get(Shop).find('abc')).rejects.toThrow(/Shop\.find.*ExecutionContext/s);
  });

  it('makes its key from its instance too', async () => {
    @Controller()
    class Shop {
      private readonly region = 'north';
      @Post('lock/:goodsNo')
      @DistributedLock(function (goodsNo) {
        return `${this.region}:${goodsNo}`;
      })
      async lock(@Param('goodsNo', Upper) goodsNo: string) {
        return [goodsNo, currentLease()?.key];
      }
      @Post('permit/:goodsNo')
      @DistributedSemaphore(
        function (goodsNo) {
          return `${this.region}:${goodsNo}`;
        },
        { permits: 1 },
      )
      async permit(@Param('goodsNo') goodsNo: string) {
        return [goodsNo, currentLease()?.key];
      }
    }
    const app = await apps.listen({ controllers: [Shop] });
    expect((await request(app.url).post('/lock/a')).body).toEqual(['A', 'north:A']);
    expect((await request(app.url).post('/permit/a')).body).toEqual(['a', 'north:a']);
  });

  it.each(['""', '"a\\u0000"', JSON.stringify('a'.repeat(1025)), '["a","a"]', '[]'])(
    'answers 400 if the key of a request is %.20s',
    async (key) => {
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
      const app = await apps.listen({
        controllers: [Shop],
        providers: [{ provide: APP_FILTER, useClass: ZkExceptionFilter }],
      });
      for (const route of ['arguments', 'context', 'service']) {
        const { status, body } = await request(app.url)
          .post(`/${route}`)
          .type('json')
          .send(`{"key":${key}}`);
        expect([route, status, (body as { code?: string }).code]).toEqual([route, 400, 'BAD_KEY']);
      }
    },
  );

  it.each([undefined, 42])('fails if its key function returns %j', async (key) => {
    @Controller()
    class Shop {
      @Get()
      @DistributedLock(() => key as never)
      async find() {}
    }
    const app = await apps.listen({ controllers: [Shop] });
    expect((await request(app.url).get('/')).status).toBe(500);
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
    const app = await apps.listen({ controllers: [Shop] });
    for (const path of ['/above', '/below']) {
      const { status, body } = await request(app.url).get(path);
      expect([status, body]).toEqual([202, ['goods', 'goods']]);
    }
    expect((await request(app.url).get('/refused')).status).toBe(403);
  });

  it.each(['/above/goods', '/below/goods', '/fixed/above', '/fixed/below'])(
    'holds its lock until all interceptors of its method are done, above and below (%s)',
    async (path) => {
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
      const app = await apps.listen({ controllers: [Shop], providers: [Transaction] });
      expect((await request(app.url).get(path)).status).toBe(200);
      expect(done).toEqual([true]);
    },
  );

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
    const app = await apps.listen({ controllers: [Shop] });
    expect((await request(app.url).get('/http')).status).toBe(410);
    expect((await request(app.url).get('/busy')).status).toBe(500);
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
    const app = await apps.listen({ controllers: [Shop], providers: [Stock] });
    const { body } = await request(app.url).get('/');
    expect(body).toEqual({ inStock: ['stock', 'goods'], again: 'goods', left: [false, true] });
    expect(app.get(LockService).held('goods')).toBe(false);
  });

  it('acquires several locks from the outermost to the innermost, whatever their keys are made from', async () => {
    const taken: string[] = [];
    const named = (key: string) => (taken.push(key), key);
    @Controller()
    class Shop {
      @Get(':id')
      @DistributedLock({ keyFromContext: () => named('first') })
      @DistributedLock((id) => named(`second-${id}`))
      @DistributedLock({ keyFromContext: () => named('third') })
      async buy(@Param('id') _id: string) {
        return ['first', 'second-7', 'third'].map((key) => currentLease(key)?.held);
      }
    }
    const app = await apps.listen({ controllers: [Shop] });
    expect((await request(app.url).get('/7')).body).toEqual([true, true, true]);
    expect(taken).toEqual(['first', 'second-7', 'third']);
  });

  it('releases the outer lock if the inner one is busy', async () => {
    @Controller()
    class Shop {
      @Get()
      @DistributedLock('outer')
      @DistributedLock('inner', { wait: 0 })
      async buy() {}
    }
    const app = await apps.listen({ controllers: [Shop] });
    const other = await apps.start({});
    await using _inner = await other.get(LockService).acquire('inner');
    expect((await request(app.url).get('/')).status).toBe(409);
    await using _outer = await other.get(LockService).acquire('outer', { wait: 0 });
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
    const app = await apps.listen({ controllers: [Shop] });
    const { status, text } = await request(app.url).get('/7');
    expect([status, text]).toEqual([200, '3']);
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
                setTimeout(first.open, 100);
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
      const app = await apps.listen({ controllers: [Shop] });
      expect((await request(app.url).get(path)).status).toBe(200);
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
    const app = await apps.listen({ controllers: [Shop] });
    expect((await request(app.url).get('/7')).body).toEqual(['/7', true]);
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
    const app = await apps.listen({ controllers: [Shop] });
    expect((await request(app.url).get('/inherited/7')).body).toEqual(['7', '7']);
    expect((await request(app.url).get('/overridden/7')).body).toEqual([null, '7', '7']);
    expect((await request(app.url).get('/own')).body).toEqual(['own', '7', '7']);
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
    @DistributedLock('goods', { wait: 20 })
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
    async waitByArgument(@Param('id') _id: string) {
      return 'done';
    }
  }

  async function contended() {
    const [app, other] = await Promise.all([apps.listen({ controllers: [Shop] }), apps.start({})]);
    const lease = await other.get(LockService).acquire('goods');
    return { app, lease, [Symbol.asyncDispose]: () => lease.release() };
  }

  it.each(['/busy', '/busy/goods'])('answers 409 at once (%s)', async (path) => {
    await using test = await contended();
    const { app } = test;
    const { status, body } = await request(app.url).get(path);
    expect([status, body]).toMatchObject([409, { statusCode: 409, code: 'BUSY' }]);
  });

  it('answers 503 with Retry-After when its wait times out', async () => {
    await using test = await contended();
    const { app } = test;
    const { status, headers, body } = await request(app.url).get('/timeout');
    expect([status, headers['retry-after'], body]).toMatchObject([503, '1', { code: 'TIMEOUT' }]);
  });

  it('answers with the error that onBusy creates', async () => {
    await using test = await contended();
    const { app } = test;
    const { status, body } = await request(app.url).get('/own');
    expect([status, body]).toMatchObject([423, { message: 'goods locked' }]);
  });

  it("answers as the module's mapError says", async () => {
    const mapError = ({ code, key }: { code: string; key?: string }) =>
      code === 'BUSY' ? new HttpException(`${key} is taken`, 423) : undefined;
    const app = await apps.listen({ controllers: [Shop] }, { mapError });
    await using _test = await contended();
    expect((await request(app.url).get('/busy')).status).toBe(423);
    expect((await request(app.url).get('/timeout')).status).toBe(503);
  });

  it('waits until the lock is granted', async () => {
    await using test = await contended();
    const { app, lease } = test;
    const answer = request(app.url)
      .get('/wait')
      .then((response) => response.text);
    await untilQueued(app.client, 'goods', 2);
    await lease.release();
    expect(await answer).toBe('done');
  });

  it.each(['/wait', '/wait/goods'])(
    'leaves the queue when its client disconnects (%s)',
    async (path) => {
      await using test = await contended();
      const { app } = test;
      const caller = call(`${app.url}${path}`);
      await untilQueued(app.client, 'goods', 2);
      caller.leave();
      await untilQueued(app.client, 'goods', 1);
    },
  );
});

describe('a handler that is running', () => {
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
    const app = await apps.listen({ controllers: [Shop] });
    const other = (await apps.start({})).get(LockService);
    const caller = call(app.url);
    await gate.reached;
    caller.leave();
    const waiting = other.acquire('goods');
    await untilQueued(app.client, 'goods', 2);
    expect(app.get(LockService).held('goods')).toBe(true);
    gate.open();
    await (await waiting).release();
  });
});

describe('ZkExceptionFilter', () => {
  it('maps the errors of handlers that use LockService or locked providers', async () => {
    @Injectable()
    class Stock {
      @DistributedLock('goods', { wait: 0 })
      async deduct() {}
    }
    @Controller()
    class Shop {
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
    const app = await apps.listen({
      controllers: [Shop],
      providers: [Stock, { provide: APP_FILTER, useClass: ZkExceptionFilter }],
    });
    await using _lease = await (await apps.start({})).get(LockService).acquire('goods');
    const provider = await request(app.url).get('/provider');
    expect([provider.status, provider.body]).toMatchObject([409, { code: 'BUSY' }]);
    const service = await request(app.url).get('/service');
    expect([service.status, service.headers['retry-after']]).toEqual([503, '1']);
    await expect(app.get(Stock).deduct()).rejects.toThrow(LockBusyError);
  });
});
