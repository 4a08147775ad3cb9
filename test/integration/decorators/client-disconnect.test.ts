import {
  type ArgumentsHost,
  Catch,
  Controller,
  Get,
  HttpException,
  Logger,
  Param,
} from '@nestjs/common';
import { APP_FILTER, BaseExceptionFilter } from '@nestjs/core';
import { DistributedLock, LockService, WaitCancelledError } from 'nestjs-zookeeper';
import { afterEach, expect, it, vi } from 'vitest';
import { call, untilQueued, useApps } from '../../support/nest-apps.js';
import { useServer } from '../../support/servers.js';

const zk = useServer();
const apps = useApps(zk);
afterEach(() => vi.restoreAllMocks());

it.each(['/wait', '/wait/goods'])(
  'a client that disconnects while its request waits is status 499 in filters, and is not logged as an error (%s)',
  async (path) => {
    const caught: unknown[] = [];
    @Catch()
    class Seeing extends BaseExceptionFilter {
      override catch(exception: unknown, host: ArgumentsHost) {
        caught.push(exception);
        super.catch(exception, host);
      }
    }
    @Controller()
    class Shop {
      @Get('wait')
      @DistributedLock('goods')
      async wait() {}

      @Get('wait/:id')
      @DistributedLock((id) => id)
      async waitByArgument(@Param('id') _id: string) {}
    }
    const logged = vi.spyOn(Logger.prototype, 'error').mockImplementation(() => {});
    const app = await apps.listen({
      controllers: [Shop],
      providers: [{ provide: APP_FILTER, useClass: Seeing }],
    });
    await using _lease = await app.get(LockService).acquire('goods', { fairness: 'strict' });
    const caller = call(`${app.url}${path}`);
    await untilQueued(app.client, 'goods', 2);
    caller.leave();
    await expect.poll(() => caught).toHaveLength(1);
    const [exception] = caught as [HttpException];
    expect(exception).toBeInstanceOf(HttpException);
    expect(exception.getStatus()).toBe(499);
    expect(exception.cause).toBeInstanceOf(WaitCancelledError);
    expect(logged).not.toHaveBeenCalled();
  },
);
