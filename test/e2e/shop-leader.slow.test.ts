import { randomBytes } from 'node:crypto';
import { EmbeddedZooKeeper } from 'nestjs-zookeeper/embedded';
import request from 'supertest';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Instances } from '../../sample-app/seckill/instances.js';
import { prepareDatabase, temporaryDatabase } from '../../sample-app/shop/database.js';
import { defaults, type ShopSettings } from '../../sample-app/shop/settings.js';
import { INSTANCE } from './seckill-process.js';

const ITEMS = 20;
const goodsNo = `leader-${randomBytes(4).toString('hex')}`;

interface LeaderAnswer {
  leader: string;
  isLeader: boolean;
  participants: { id: string }[];
}

describe('the leader among three instances of the shop', () => {
  let server: EmbeddedZooKeeper;
  let instances: Instances;

  beforeAll(async () => {
    server = await EmbeddedZooKeeper.start({ tickTime: 500, minSessionTimeout: 1000 });
    const settings: ShopSettings = {
      ...defaults,
      zookeeper: server.connectString,
      database: temporaryDatabase(),
      sessionTimeout: 4000,
      payWithin: 5000,
    };
    await prepareDatabase(settings, [{ goodsNo, stock: ITEMS }]);
    instances = await Instances.start(3, settings, { entry: INSTANCE });
  });

  afterAll(async () => {
    await instances?.[Symbol.asyncDispose]();
    await server?.stop();
  });

  const get = async <T>(url: string, path: string) => (await request(url).get(path)).body as T;
  const leaders = () =>
    Promise.all(instances.alive.map(({ url }) => get<LeaderAnswer>(url, '/leader')));
  const goods = () => get<object>(instances.alive[0]!.url, `/goods-stock/${goodsNo}`);
  const buy = async () => {
    const { url } = instances.alive[1]!;
    const { body } = await request(url).post(`/goods-stock/${goodsNo}/purchase`).expect(201);
    return (body as { orderId: number }).orderId;
  };
  const pay = (orderId: number) => request(instances.alive[0]!.url).post(`/orders/${orderId}/pay`);

  it('is one instance, which all instances report', async () => {
    await expect
      .poll(async () => (await leaders()).every(({ participants }) => participants.length === 3))
      .toBe(true);
    await expect
      .poll(async () => (await leaders()).filter(({ isLeader }) => isLeader).length)
      .toBe(1);
    expect(new Set((await leaders()).map(({ leader }) => leader)).size).toBe(1);
  });

  it('closes unpaid orders, and returns their items to the stock once', async () => {
    const paid = await buy();
    await pay(paid).expect(200, { orderId: paid, state: 'paid' });
    const unpaid = [await buy(), await buy()];
    await expect.poll(goods).toMatchObject({ stock: ITEMS - 1, orders: 1 });
    await pay(unpaid[0]!).expect(409);
    await pay(paid).expect(409);
  });

  it('is replaced by another instance when it is killed, and the job continues there', async () => {
    const [{ leader: first }] = (await leaders()) as [LeaderAnswer];
    process.kill(Number(first.split(':')[1]), 'SIGKILL');
    await expect.poll(() => instances.alive.length).toBe(2);
    await buy();
    await expect.poll(goods).toMatchObject({ stock: ITEMS - 1, orders: 1 });
    const answers = await leaders();
    expect(answers.filter(({ isLeader }) => isLeader)).toHaveLength(1);
    expect(answers.map(({ leader }) => leader)).not.toContain(first);
  });
});
