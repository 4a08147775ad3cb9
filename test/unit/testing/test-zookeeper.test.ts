import { setImmediate } from 'node:timers/promises';
import { Injectable } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import {
  currentLease,
  DistributedLock,
  LeaderOnly,
  LeaderService,
  LeaseLostError,
  LockBusyError,
  LockService,
  ZkClient,
  ZkModule,
} from 'nestjs-zookeeper';
import { Mutex } from 'nestjs-zookeeper/recipes';
import { TestZooKeeper } from 'nestjs-zookeeper/testing';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { untilNodes } from '../../support/recipe-nodes.js';

@Injectable()
class Stock {
  left = 5;

  @DistributedLock('stock', { wait: 60_000 })
  async take(): Promise<bigint> {
    const { left } = this;
    await setImmediate();
    this.left = left - 1;
    return currentLease()!.fencingToken;
  }

  @LeaderOnly('stock')
  async count(): Promise<number | undefined> {
    return this.left;
  }
}

const KINDS = {
  'in process': async () => TestZooKeeper.inProcess(),
  'on the embedded server': () => TestZooKeeper.embedded(),
};

describe.each(Object.entries(KINDS))('an application tested %s', (kind, start) => {
  let zookeeper: TestZooKeeper;
  let close: (() => Promise<void>)[];

  beforeEach(async () => {
    zookeeper = await start();
    close = [];
  });

  afterEach(async () => {
    await Promise.all(close.map((end) => end()));
    await zookeeper.stop();
  });

  async function application() {
    const builder = Test.createTestingModule({
      imports: [ZkModule.forRoot({ connectString: 'production.example:2181', namespace: 'shop' })],
      providers: [Stock],
    });
    const module = await zookeeper.override(builder).compile();
    const app = module.createNestApplication({ logger: ['error'] });
    await app.init();
    close.push(() => app.close());
    return app;
  }

  async function client() {
    const connected = await zookeeper.client();
    close.push(() => connected.close());
    return connected;
  }

  it('locks its methods across its instances', async () => {
    const apps = [await application(), await application()];
    const stock = apps[0]!.get(Stock);
    const tokens = await Promise.all([stock.take(), stock.take(), stock.take()]);
    expect(stock.left).toBe(2);
    expect(tokens).toEqual(tokens.toSorted((a, b) => (a < b ? -1 : 1)));
    const [one, two] = apps.map((app) => app.get(LockService));
    const lease = await one!.acquire('stock');
    expect(lease.path).toBe('/shop/locks/stock');
    await expect(two!.acquire('stock', { wait: 0 })).rejects.toThrow(LockBusyError);
    await lease.release();
  });

  it('has one leader, and another one after the first has stopped', async () => {
    const one = await application();
    await expect.poll(() => one.get(LeaderService).isLeader('stock')).toBe(true);
    const two = await application();
    expect(await Promise.all([one, two].map((app) => app.get(Stock).count()))).toEqual([
      5,
      undefined,
    ]);
    await one.close();
    await expect.poll(() => two.get(Stock).count()).toBe(5);
  });

  it('gets a new session after expireSession()', async () => {
    const app = await application();
    const zk = app.get(ZkClient);
    const { id } = await zk.session();
    const lease = await app.get(LockService).acquire('stock');
    await zookeeper.expireSession(zk);
    expect(lease.held).toBe(false);
    expect(lease.signal.reason).toBeInstanceOf(LeaseLostError);
    expect((await zk.session()).id).not.toBe(id);
    await app.get(Stock).take();
  });

  it('reconnects to its session after dropConnection()', async () => {
    const app = await application();
    const zk = app.get(ZkClient);
    const { id } = await zk.session();
    const lease = await app.get(LockService).acquire('stock');
    await zookeeper.dropConnection(zk);
    expect(zk.state).not.toBe('CONNECTED');
    expect((await zk.session()).id).toBe(id);
    expect(lease.held).toBe(true);
    await lease.release();
  });

  it('works under injected faults', async () => {
    const zk = await client();
    const mutex = new Mutex(zk, '/fault');
    await mutex.withLock(() => {});
    await zookeeper.faults.dropReply({ op: 'create' });
    await mutex.withLock(async ({ held }) => expect(held).toBe(true));
    await untilNodes(zk, '/fault', 0);
  });

  it('needs no real timer, and no session ends when a test skips an hour', async () => {
    const stock = (await application()).get(Stock);
    const lease = await new Mutex(await client(), '/held').acquire();
    vi.useFakeTimers({
      toFake: [
        ...(['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval'] as const),
        ...(['setImmediate', 'clearImmediate', 'queueMicrotask', 'Date', 'performance'] as const),
      ],
    });
    try {
      const first = await stock.take();
      vi.advanceTimersByTime(3_600_000);
      expect(await stock.take()).toBeGreaterThan(first);
      expect(lease.held).toBe(true);
    } finally {
      vi.useRealTimers();
    }
  });

  it("loses its session when the server's clock is advanced", async () => {
    const zk = await client();
    const session = await zk.session();
    await zookeeper.skipClock(120_000);
    await expect.poll(() => session.alive).toBe(false);
    await zk.session();
  });

  it(`is ${kind === 'in process' ? 'not ' : ''}reachable by other processes`, () => {
    if (kind === 'in process') expect(zookeeper.connectString).toBeUndefined();
    else expect(zookeeper.connectString).toMatch(/^127\.0\.0\.1:\d+$/);
  });
});

it.each([
  ['in process', async () => TestZooKeeper.inProcess({ server: 'clickhouse-keeper' })],
  ['embedded', () => TestZooKeeper.embedded({ server: 'clickhouse-keeper' })],
] as const)('a server %s can copy another server', async (_kind, startCopy) => {
  await using zookeeper = await startCopy();
  const client = await zookeeper.client();
  try {
    expect((await client.children('/')).children).toEqual(['keeper']);
    // This server resumes no session.
    const { sessionId } = client;
    await zookeeper.dropConnection(client);
    await client.exists('/');
    expect(client.sessionId).not.toBe(sessionId);
  } finally {
    await client.close();
  }
});
