import { Injectable, Logger, Module } from '@nestjs/common';
import {
  ConnectionError,
  DistributedLock,
  getLockServiceToken,
  getZkClientToken,
  InjectLockService,
  InjectZkClient,
  LeaderService,
  LockService,
  WaitCancelledError,
  ZkClient,
  ZkModule,
  type ZkModuleAsyncOptions,
  type ZkOptionsFactory,
} from 'nestjs-zookeeper';
import {
  CoordinationModule,
  type LiveValue,
  type Partition,
  Partitioned,
  ZkValue,
} from 'nestjs-zookeeper/coordination';
import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, vi } from 'vitest';
import { eventually } from '../support/eventually.js';
import { failureOf } from '../support/recipe-nodes.js';
import { untilLeading, useApps } from '../support/nest-apps.js';
import { useServer } from '../support/servers.js';
import { afterEach, it } from '../support/virtual-time.js';

const zk = useServer();
const apps = useApps(zk);
afterEach(() => vi.restoreAllMocks());

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

  it('fails to start if no server answers, names the address, logs each failed attempt with the next one, and leaves nothing running', async () => {
    const close = vi.spyOn(ZkClient.prototype, 'close');
    const lines = recordLog();
    await zk.stop();
    const start = apps.start({}, { retry: once });
    await expect(start).rejects.toThrow(ConnectionError);
    await expect(start).rejects.toThrow(
      new RegExp(
        `^the ZooKeeper connection "default" to ${zk.connectString} failed: .*ECONNREFUSED.*set lazyConnection: true`,
      ),
    );
    expect(lines).toEqual([
      `connecting to ${zk.connectString} over the wire transport`,
      expect.stringMatching(
        /^attempt 1 to connect failed: .*ECONNREFUSED.*; attempt 2 follows in 10 ms$/,
      ),
      expect.stringMatching(/^attempt 2 .*; attempt 3 follows in 10 ms$/),
      expect.stringMatching(/^CLOSED/),
    ]);
    expect(close).toHaveBeenCalledOnce();
    expect((close.mock.contexts[0] as ZkClient).state).toBe('CLOSED');
  });

  it('starts with lazyConnection although no server answers, and connects without any call when one does, however late', async () => {
    const lines = recordLog();
    await zk.stop();
    const partitions: number[] = [];
    @Injectable()
    class Background {
      @ZkValue('config/limit', { default: 1 })
      readonly limit!: LiveValue<number>;

      @Partitioned('orders', { partitions: 1, rebalanceDelay: 0 })
      async work({ index, signal }: Partition) {
        partitions.push(index);
        await new Promise((resolve) => signal.addEventListener('abort', resolve));
      }
    }
    const app = await apps.start(
      { imports: [CoordinationModule.forRoot()], providers: [Background] },
      { lazyConnection: true, elections: ['job'] },
    );
    // Ten times as long as the retry policy allows.
    await delay(90_000);
    expect(app.client.state).toBe('CONNECTING');
    const locks = app.get(LockService);
    await expect(locks.acquire('stock')).rejects.toThrow(ConnectionError);
    await expect(locks.participants('stock')).rejects.toThrow(zk.connectString);
    expect(lines.filter((line) => line.startsWith('attempt')).length).toBeLessThan(35);
    await zk.start();
    await untilLeading(app.get(LeaderService), 'job');
    await eventually(() => expect(partitions).toEqual([0]));
    await eventually(() => expect(app.get(Background).limit.staleSince).toBeUndefined());
    expect(lines.filter((line) => line.startsWith('CONNECTED'))).toHaveLength(1);
  });

  it('waits for a lazy connection until the signal aborts, for its wait, and as a try for 2 seconds', async () => {
    await zk.stop();
    const retry = { type: 'forever', delay: 3_600_000 } as const;
    const locks = (await apps.start({}, { lazyConnection: true, retry })).get(LockService);
    const controller = new AbortController();
    const waiting = failureOf(locks.acquire('first', { signal: controller.signal }));
    for (const [wait, after] of [
      [0, 2_000],
      [500, 500],
    ] as const) {
      const before = performance.now();
      const failure = await failureOf(locks.acquire('first', { wait }));
      expect(Math.round(performance.now() - before)).toBe(after);
      expect(failure).toBeInstanceOf(ConnectionError);
      const message = expect.stringContaining(`no connection for ${after} ms`);
      expect(failure).toMatchObject({ key: 'first', message });
    }
    controller.abort();
    expect(await waiting).toBeInstanceOf(WaitCancelledError);
  });

  it('logs one line for each change of the connection, and none for leases', async () => {
    const lines = recordLog();
    const app = await apps.start({});
    for (let i = 0; i < 3; i++) await app.get(LockService).withLock('quiet', () => {});
    await app.close();
    expect(lines).toEqual([
      `connecting to ${zk.connectString} over the wire transport`,
      'CONNECTED',
      expect.stringMatching(/^CLOSED/),
    ]);
  });
});

describe('ZkModule.forRootAsync', () => {
  @Injectable()
  class Config {
    readonly namespace = zk.path('async');
  }
  @Module({ providers: [Config], exports: [Config] })
  class ConfigModule {}

  @Injectable()
  class ZkConfig implements ZkOptionsFactory {
    constructor(private readonly config: Config) {}
    createZkOptions() {
      return apps.options({ namespace: this.config.namespace });
    }
  }
  @Module({ imports: [ConfigModule], providers: [ZkConfig], exports: [ZkConfig] })
  class ZkConfigModule {}

  it.each<[string, ZkModuleAsyncOptions]>([
    [
      'useFactory',
      {
        imports: [ConfigModule],
        inject: [Config],
        useFactory: async ({ namespace }: Config) => apps.options({ namespace }),
      },
    ],
    ['useClass', { imports: [ConfigModule], useClass: ZkConfig }],
    ['useClass with providers', { provideInjectionTokensFrom: [Config], useClass: ZkConfig }],
    ['useExisting', { imports: [ZkConfigModule], useExisting: ZkConfig }],
  ])('accepts options by %s, and can name its connection', async (_, options) => {
    const imports = [ZkModule.forRootAsync({ ...options, name: 'orders' })];
    const app = await apps.start({ imports });
    const client = app.get<ZkClient>(getZkClientToken('orders'));
    expect(client.state).toBe('CONNECTED');
    expect(client.namespace).toBe(app.get(Config, { strict: false }).namespace);
    expect(client).not.toBe(app.client);
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
