import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { EmbeddedZooKeeper } from 'nestjs-zookeeper/embedded';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ZkClient } from '../../lib/client/zk-client.js';
import { Instance } from '../../sample-app/seckill/instances.js';
import { sendBuyers } from '../../sample-app/seckill/load.js';
import { prepareDatabase } from '../../sample-app/shop/database.js';
import { defaults, type ShopSettings } from '../../sample-app/shop/settings.js';
import { INSTANCE } from './seckill-process.js';

const ITEMS = 20;
const SESSION_TIMEOUT = 4_000;

const look = async (shop: Instance) => (await fetch(`${shop.url}/goods-stock/phone`)).json();

const purchase = (shop: Instance) =>
  fetch(`${shop.url}/goods-stock/phone/purchase`, { method: 'POST' });

describe('an instance of the shop', () => {
  let directory: string;
  let zookeeper: EmbeddedZooKeeper;
  let client: ZkClient;
  let settings: ShopSettings;

  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'seckill-faults-'));
    zookeeper = await EmbeddedZooKeeper.start();
    client = new ZkClient({ connectString: zookeeper.connectString });
    await client.connect();
    settings = {
      ...defaults,
      zookeeper: zookeeper.connectString,
      database: join(directory, 'shop.sqlite'),
      delay: [0, 5],
      sessionTimeout: SESSION_TIMEOUT,
    };
    await prepareDatabase(settings, [{ goodsNo: 'phone', stock: ITEMS }]);
  });

  afterEach(async () => {
    await client.close();
    await zookeeper.stop();
    await rm(directory, { recursive: true, force: true });
  });

  const start = (delay: ShopSettings['delay'] = settings.delay) =>
    Instance.start({ ...settings, delay }, { entry: INSTANCE });

  /** Resolves when the shop's only buyer holds the lock and the shop has answered since. */
  async function holdsTheLock(shop: Instance): Promise<void> {
    const metrics = async () => (await fetch(`${shop.url}/metrics`)).text();
    await expect.poll(metrics).toMatch(/^zookeeper_lock_grants_total\{.*\} 1/m);
    for (let i = 0; i < 3; i++) await look(shop);
  }

  it('that is killed while it holds the lock loses the requests of its own buyers, and no item is sold twice', async () => {
    await using victim = await start([60_000, 60_000]);
    await using second = await start();
    await using third = await start();
    const lost = purchase(victim).catch((error: Error) => error);
    await holdsTheLock(victim);

    let sold = 0;
    const run = sendBuyers({
      urls: [victim, second, third].map((shop) => `${shop.url}/goods-stock/phone/purchase`),
      buyers: 90,
      patience: 60_000,
      onProgress: (tally) => (sold = tally.sold),
    });
    await expect
      .poll(async () => (await client.exists('/seckill/locks/goods-phone'))?.numChildren)
      .toBeGreaterThanOrEqual(3);
    expect(sold).toBe(0);
    process.kill(victim.pid, 'SIGKILL');

    expect((await run).errors).toBe(30);
    expect(await lost).toBeInstanceOf(Error);
    expect(await look(second)).toMatchObject({ stock: 0, orders: ITEMS });
  });

  it('that is stopped for longer than its session is too late: the fence rejects its write', async () => {
    await using paused = await start([5_000, 5_000]);
    await using next = await start();
    const late = purchase(paused);
    await holdsTheLock(paused);

    process.kill(paused.pid, 'SIGSTOP');
    const inTime = await purchase(next);
    expect(inTime.status).toBe(201);
    process.kill(paused.pid, 'SIGCONT');
    paused.updateSettings({ delay: settings.delay });

    const refused = await late;
    expect(refused.status).toBe(412);
    expect(((await refused.json()) as { message: string }).message).toMatch(
      'the write to phone was refused: a later lock holder has stored a higher fencing token',
    );
    expect(await look(next)).toMatchObject({ stock: ITEMS - 1, orders: 1 });

    // The instance queues again with a new session.
    expect((await purchase(paused)).status).toBe(201);
    expect(await look(next)).toMatchObject({ stock: ITEMS - 2, orders: 2 });
  });
});
