import { Controller } from '@nestjs/common';
import { MessagePattern, Payload } from '@nestjs/microservices';
import { currentLease, DistributedLock, LockService } from 'nestjs-zookeeper';
import { firstValueFrom, NEVER, type Observable } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { eventually } from '../../support/eventually.js';
import { useTcpClients } from '../../support/messages.js';
import { type AppOptions, useApps } from '../../support/nest-apps.js';
import { useServer } from '../../support/servers.js';

const zk = useServer();
const apps = useApps(zk);
const clientOf = useTcpClients();

describe('a locked message handler', () => {
  @Controller()
  class Shop {
    @MessagePattern('fixed')
    @DistributedLock('goods', { wait: 0 })
    async fixed(@Payload() id: string) {
      return [id, currentLease()?.key];
    }

    @DistributedLock((id) => id, { wait: 1_000 })
    @MessagePattern('argument')
    async argument(@Payload() id: string) {
      return [id, currentLease()?.key];
    }

    @MessagePattern('stream')
    @DistributedLock((id) => id)
    stream(@Payload() _id: string): Observable<never> {
      return NEVER;
    }
  }

  async function start(options?: AppOptions) {
    const app = await apps.start({ controllers: [Shop] }, options);
    const client = await clientOf(app);
    return { app, send: (pattern: string, id: string) => client.send<unknown>(pattern, id) };
  }

  it('holds its lock, with a fixed key or with a key from its arguments', async () => {
    const { send } = await start();
    expect(await firstValueFrom(send('fixed', '7'))).toEqual(['7', 'goods']);
    expect(await firstValueFrom(send('argument', '7'))).toEqual(['7', '7']);
  });

  it('rejects with an RpcException if the lock is held elsewhere', async () => {
    const { send } = await start();
    const other = (await apps.start({})).get(LockService);
    await using _lease = await other.acquire('goods');
    await expect(firstValueFrom(send('fixed', '7'))).rejects.toMatchObject({
      status: 'error',
      code: 'BUSY',
    });
    await expect(firstValueFrom(send('argument', 'goods'))).rejects.toMatchObject({
      code: 'TIMEOUT',
      retryAfter: 1,
    });
  });

  it('holds the lock until its stream ends, and releases it when the application closes', async () => {
    const { app, send } = await start({ shutdownTimeout: 50 });
    const other = await apps.start({});
    const subscription = send('stream', 'goods').subscribe({ error: () => {} });
    await eventually(() => expect(app.get(LockService).held('goods')).toBe(true));
    await app.close();
    await using _lease = await other.get(LockService).acquire('goods', { wait: 0 });
    subscription.unsubscribe();
  });
});
