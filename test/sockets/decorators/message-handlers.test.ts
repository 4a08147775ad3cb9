import { Controller, type INestApplication, Logger, UseFilters } from '@nestjs/common';
import {
  type ClientProxy,
  ClientProxyFactory,
  EventPattern,
  MessagePattern,
  type MicroserviceOptions,
  Payload,
  Transport,
} from '@nestjs/microservices';
import {
  currentLease,
  currentTerm,
  DistributedLock,
  LeaderOnly,
  LockService,
  ZkExceptionFilter,
} from 'nestjs-zookeeper';
import { firstValueFrom, NEVER, type Observable } from 'rxjs';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { eventually } from '../../support/eventually.js';
import { type AppOptions, useApps } from '../../support/nest-apps.js';
import { useServer } from '../../support/servers.js';

const zk = useServer();
const apps = useApps(zk);
const open: ClientProxy[] = [];
afterEach(() => Promise.all(open.splice(0).map((client) => client.close())));

/** Starts the TCP microservice of an application, and returns a client of it. */
async function clientOf(app: INestApplication): Promise<ClientProxy> {
  const options = { host: '127.0.0.1', port: 0 };
  const service = app.connectMicroservice<MicroserviceOptions>({
    transport: Transport.TCP,
    options,
  });
  await app.startAllMicroservices();
  const { port } = service.unwrap<{ address(): { port: number } }>().address();
  const client = ClientProxyFactory.create({
    transport: Transport.TCP,
    options: { ...options, port },
  });
  open.push(client);
  return client;
}

describe('a locked message handler', () => {
  @Controller()
  class Shop {
    @MessagePattern('fixed')
    @DistributedLock('goods', { wait: 0 })
    async fixed(@Payload() id: string) {
      return [id, currentLease()?.key];
    }

    @DistributedLock((id) => id)
    @MessagePattern('argument')
    async argument(@Payload() id: string) {
      return [id, currentLease()?.key];
    }

    @DistributedLock((id) => id, { wait: 20 })
    @MessagePattern('timeout')
    async timeout(@Payload() _id: string) {}

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
    await expect(firstValueFrom(send('timeout', 'goods'))).rejects.toMatchObject({
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

describe('a locked event handler', () => {
  @Controller()
  class Shop {
    constructor(private readonly locks: LockService) {}

    @EventPattern('sold')
    @DistributedLock('goods', { wait: 0 })
    async sold(@Payload() _id: string) {}

    @DistributedLock((id) => id, { wait: 20 })
    @EventPattern('returned')
    async returned(@Payload() _id: string) {}

    @EventPattern('counted')
    @UseFilters(ZkExceptionFilter)
    async counted(@Payload() _id: string) {
      await this.locks.withLock('goods', { wait: 0 }, () => {});
    }
  }

  afterEach(() => vi.restoreAllMocks());

  it('logs an error with the key if it cannot acquire its lock, because the sender gets no answer', async () => {
    const lines: string[] = [];
    for (const level of ['error', 'warn'] as const) {
      vi.spyOn(Logger.prototype, level).mockImplementation(function (this: Logger, line: unknown) {
        const { context } = this as unknown as { context: string };
        if (/^(Zk|Rpc)/.test(context)) lines.push(`${level} ${context}: ${String(line)}`);
      });
    }
    const warnAfter = { wait: Infinity, hold: Infinity };
    const app = await apps.start({ controllers: [Shop] }, { warnAfter });
    const client = await clientOf(app);
    const logged = async (event: string, id: string) => {
      lines.length = 0;
      client.emit(event, id).subscribe();
      await eventually(() => expect(lines).toHaveLength(1));
      return lines[0];
    };
    const other = (await apps.start({}, { warnAfter })).get(LockService);
    await using _lease = await other.acquire('goods');
    expect(await logged('sold', '7')).toMatch(
      /^error ZkModule: event handler Shop.sold failed with BUSY for the key "goods", and the event may be lost: /,
    );
    expect(await logged('returned', 'goods')).toContain('failed with TIMEOUT for the key "goods"');
    expect(await logged('counted', '7')).toMatch(/^warn ZkExceptionFilter: .*"goods"/);
    await app.client.close();
    const forged = await logged('returned', '7\u009b\u202e\u2028');
    expect(forged).toContain('failed with SHUTTING_DOWN for the key "7???"');
    expect(await logged('returned', '7')).toContain('failed with SHUTTING_DOWN for the key "7"');
  });
});

it('a @LeaderOnly message handler answers on the leader, and rejects with an RpcException on the others', async () => {
  @Controller()
  class Jobs {
    @MessagePattern('run')
    @LeaderOnly('job')
    async run(@Payload() id: string) {
      return [id, currentTerm()?.participantId];
    }

    @LeaderOnly({ election: 'job', otherwise: async ({ leader }) => (await leader())?.id })
    @MessagePattern('routed')
    async routed(@Payload() id: string): Promise<unknown> {
      return id;
    }
  }
  const { one, other } = await apps.leaderAndFollower({ controllers: [Jobs] });
  const [toLeader, toOther] = [await clientOf(one), await clientOf(other)].map(
    (client) => (pattern: string) => firstValueFrom(client.send<unknown>(pattern, '7')),
  );
  expect(await toLeader!('run')).toEqual(['7', 'one']);
  await expect(toOther!('run')).rejects.toMatchObject({ status: 'error', code: 'NOT_LEADER' });
  expect([await toLeader!('routed'), await toOther!('routed')]).toEqual(['7', 'one']);
});
