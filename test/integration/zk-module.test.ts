import { Injectable, Logger, Module } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import {
  ConnectionError,
  DistributedLock,
  getLockServiceToken,
  getZkClientToken,
  InjectLockService,
  InjectZkClient,
  LockService,
  WaitCancelledError,
  ZkClient,
  ZkModule,
  type ZkModuleAsyncOptions,
  type ZkOptionsFactory,
} from 'nestjs-zookeeper';
import { EmbeddedZooKeeper } from 'nestjs-zookeeper/embedded';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { failureOf } from '../support/recipe-nodes.js';
import { silent, useApps } from '../support/nest-apps.js';
import { freePort } from '../support/real-zookeeper.js';
import { useServer } from '../support/servers.js';

const zk = useServer();
const apps = useApps(zk);
afterEach(() => vi.restoreAllMocks());

/** A port on which no server listens. */
const NOWHERE = '127.0.0.1:1';
const once = { type: 'fixed', delay: 10, maxRetries: 2 } as const;

/** Returns the lines that connections log from now on. */
function recordLog(): string[] {
  const lines: string[] = [];
  const write = function (this: Logger, line: unknown) {
    if ((this as unknown as { context: string }).context.startsWith('ZkModule')) {
      lines.push(String(line));
    }
  };
  vi.spyOn(Logger.prototype, 'log').mockImplementation(write);
  vi.spyOn(Logger.prototype, 'warn').mockImplementation(write);
  return lines;
}

describe('an application with ZkModule', () => {
  it('is connected when it has started, and has no session when it has closed', async () => {
    const app = await apps.start({});
    const observer = await apps.start({});
    expect(app.client.state).toBe('CONNECTED');

    const path = `${zk.path('session')}`;
    await app.client.create(path, '', { mode: 'ephemeral' });
    expect(await observer.client.exists(path)).toBeDefined();
    await app.close();
    expect(app.client.state).toBe('CLOSED');
    expect(await observer.client.exists(path)).toBeUndefined();
  });

  it('fails to start if no server answers, names the address, and leaves nothing running', async () => {
    const close = vi.spyOn(ZkClient.prototype, 'close');
    const start = apps.start({}, { connectString: NOWHERE, retry: once });
    await expect(start).rejects.toThrow(ConnectionError);
    await expect(start).rejects.toThrow(
      /^the ZooKeeper connection "default" to 127\.0\.0\.1:1 failed: .*ECONNREFUSED.*set lazyConnection: true/,
    );
    expect(close).toHaveBeenCalledOnce();
    expect((close.mock.contexts[0] as ZkClient).state).toBe('CLOSED');
  });

  it('starts with lazyConnection although no server answers: locks fail until one does', async () => {
    const port = await freePort();
    const connectString = `127.0.0.1:${port}`;
    const app = await apps.start({}, { connectString, lazyConnection: true, retry: once });
    const locks = app.get(LockService);
    await expect(locks.acquire('first')).rejects.toThrow(ConnectionError);
    await expect(locks.acquire('first')).rejects.toThrow(connectString);

    await using _server = await EmbeddedZooKeeper.start({ port });
    expect(await locks.withLock('first', () => 'locked')).toBe('locked');
    await app.close();
  });

  it('waits for a lazy connection until the signal aborts', async () => {
    const retry = { type: 'forever', delay: 60_000 } as const;
    const options = { connectString: NOWHERE, lazyConnection: true, retry };
    const locks = (await apps.start({}, options)).get(LockService);
    const controller = new AbortController();
    const waiting = locks.acquire('first', { signal: controller.signal });
    controller.abort();
    await expect(waiting).rejects.toThrow(WaitCancelledError);
  });

  it('answers a try within 2 seconds while a lazy connection is not made', async () => {
    const retry = { type: 'forever', delay: 3_600_000 } as const;
    const options = { connectString: NOWHERE, lazyConnection: true, retry };
    const locks = (await apps.start({}, options)).get(LockService);
    const failure = await failureOf(locks.acquire('first', { wait: 0 }));
    expect(failure).toBeInstanceOf(ConnectionError);
    expect(failure).toMatchObject({ key: 'first', message: expect.stringContaining('2000 ms') });
  });

  it('logs where it connects to, and each failed attempt with the next one', async () => {
    const lines = recordLog();
    const name = 'orders';
    const start = apps.start({}, { name, connectString: NOWHERE, retry: once });
    await expect(start).rejects.toThrow(/connection "orders" to/);
    expect(lines.slice(0, 3)).toEqual([
      `connecting to ${NOWHERE}`,
      expect.stringMatching(
        /^attempt 1 to connect failed: .*ECONNREFUSED.*; attempt 2 follows in 10 ms$/,
      ),
      expect.stringMatching(/^attempt 2 .*; attempt 3 follows in 10 ms$/),
    ]);
    expect(lines.filter((line) => line.startsWith('attempt'))).toHaveLength(2);
  });

  it('logs one line for each change of the connection, and none for leases', async () => {
    const lines = recordLog();
    const app = await apps.start({});
    for (let i = 0; i < 3; i++) await app.get(LockService).withLock('quiet', () => {});
    await app.close();
    expect(lines).toEqual([
      `connecting to ${zk.connectString}`,
      expect.stringMatching(/^CONNECTED session 0x[0-9a-f]+$/),
      expect.stringMatching(/^CLOSED/),
    ]);
  });
});

describe('ZkModule.forRootAsync', () => {
  @Injectable()
  class Config {
    readonly connectString = zk.connectString;
  }
  @Module({ providers: [Config], exports: [Config] })
  class ConfigModule {}

  @Injectable()
  class ZkConfig implements ZkOptionsFactory {
    constructor(private readonly config: Config) {}
    createZkOptions() {
      return apps.options({ connectString: this.config.connectString });
    }
  }
  @Module({ imports: [ConfigModule], providers: [ZkConfig], exports: [ZkConfig] })
  class ZkConfigModule {}

  it.each<[string, () => ZkModuleAsyncOptions]>([
    [
      'useFactory',
      () => ({
        imports: [ConfigModule],
        inject: [Config],
        useFactory: async ({ connectString }: Config) => apps.options({ connectString }),
      }),
    ],
    ['useClass', () => ({ imports: [ConfigModule], useClass: ZkConfig })],
    ['useExisting', () => ({ imports: [ZkConfigModule], useExisting: ZkConfig })],
  ])('accepts options by %s', async (_, options) => {
    const module = await Test.createTestingModule({ imports: [ZkModule.forRootAsync(options())] })
      .setLogger(silent)
      .compile();
    await module.init();
    expect(await module.get(LockService).withLock('async', () => 'locked')).toBe('locked');
    await module.close();
  });

  it('can name its connection', async () => {
    const module = await Test.createTestingModule({
      imports: [ZkModule.forRootAsync({ name: 'orders', useFactory: () => apps.options() })],
    })
      .setLogger(silent)
      .compile();
    await module.init();
    expect(module.get<ZkClient>(getZkClientToken('orders')).state).toBe('CONNECTED');
    expect(() => module.get(ZkClient)).toThrow();
    await module.close();
  });
});

describe('several connections', () => {
  @Injectable()
  class Shop {
    constructor(
      readonly locks: LockService,
      readonly client: ZkClient,
      @InjectLockService('stock') readonly stockLocks: LockService,
      @InjectZkClient('stock') readonly stockClient: ZkClient,
    ) {}

    @DistributedLock('goods')
    async onDefault(): Promise<boolean[]> {
      return [this.locks.held('goods'), this.stockLocks.held('goods')];
    }

    @DistributedLock('goods', { connection: 'stock' })
    async onStock(): Promise<boolean[]> {
      return [this.locks.held('goods'), this.stockLocks.held('goods')];
    }

    @DistributedLock('outer')
    @DistributedLock('inner', { connection: 'stock' })
    async onBoth(): Promise<boolean[]> {
      return [this.locks.held('outer'), this.stockLocks.held('inner')];
    }
  }

  it('are distinguished by name, in injection and in decorators', async () => {
    const app = await apps.start({
      imports: [ZkModule.forRoot(apps.options({ name: 'stock', namespace: zk.path('stock') }))],
      providers: [Shop],
    });
    const shop = app.get(Shop);
    expect(shop.client).not.toBe(shop.stockClient);
    expect(shop.stockLocks).toBe(app.get(getLockServiceToken('stock')));
    expect(await shop.onDefault()).toEqual([true, false]);
    expect(await shop.onStock()).toEqual([false, true]);
    expect(await shop.onBoth()).toEqual([true, true]);
  });
});

describe('ZkModule.forRoot({ embedded: true })', () => {
  it('starts its own server, logs that it is for development, and stops it', async () => {
    const warn = vi.spyOn(Logger.prototype, 'warn').mockImplementation(() => {});
    const stop = vi.spyOn(EmbeddedZooKeeper.prototype, 'stop');
    const app = await apps.start({}, { connectString: undefined, embedded: true });
    expect(await app.get(LockService).withLock('embedded', () => 'locked')).toBe('locked');
    expect(warn).toHaveBeenCalledWith(
      expect.stringMatching(/embedded ZooKeeper on 127\.0\.0\.1:\d+, for development.*ensemble/),
    );
    await app.close();
    expect(stop).toHaveBeenCalledOnce();
  });

  it('stops the server if the application fails to start', async () => {
    vi.spyOn(Logger.prototype, 'warn').mockImplementation(() => {});
    const stop = vi.spyOn(EmbeddedZooKeeper.prototype, 'stop');
    const fails = apps.start({}, { connectString: undefined, embedded: true, sessionTimeout: -1 });
    await expect(fails).rejects.toThrow(/sessionTimeout/);
    expect(stop).toHaveBeenCalledOnce();
  });
});
