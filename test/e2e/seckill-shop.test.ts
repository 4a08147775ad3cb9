import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import sqlite from 'libsql';
import request from 'supertest';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ListeningProcess } from './live-server-process.js';

describe('the shop of npm start', () => {
  let shop: ListeningProcess;
  let http: ReturnType<typeof request>;

  beforeAll(async () => {
    shop = await ListeningProcess.liveServer();
    http = request(shop.address);
  });
  afterAll(() => shop?.[Symbol.asyncDispose]());

  it('prints commands to try', () => {
    expect(shop.output).toMatch(
      /Try:[^]*ZooKeeper listens on (127\.0\.0\.1:\d+)[^]* watch --zookeeper \1\n[^]*npm run seckill/,
    );
  });

  const reset = (stock: unknown) => http.post('/goods-stock/phone/reset').send({ stock });

  it.each(['purchase', 'purchase-unlocked'])('sells an item by %s', async (route) => {
    await reset(2).expect(200, { goodsNo: 'phone', stock: 2, isActive: true, orders: 0 });
    await http.post(`/goods-stock/phone/${route}`).expect(201);
    await http
      .get('/goods-stock/phone')
      .expect(200, { goodsNo: 'phone', stock: 1, isActive: true, orders: 1 });
    await http.post(`/goods-stock/phone/${route}`).expect(201);
    const { body } = await http.post(`/goods-stock/phone/${route}`).expect(409);
    expect(body.message).toBe('phone is sold out');
  });

  it.each(['purchase', 'purchase-unlocked'])(
    '%s answers 404 for unknown goods and 410 for goods that are not on sale',
    async (route) => {
      const car = await http.post(`/goods-stock/car/${route}`).expect(404);
      expect(car.body.message).toBe('there are no goods car');
      const camera = await http.post(`/goods-stock/camera/${route}`).expect(410);
      expect(camera.body.message).toBe('camera is not on sale');
    },
  );

  it.each(['PHONE', 'a%2Fb', '%00', 'x'.repeat(65)])(
    'rejects the goods number %s',
    async (goodsNo) => {
      const { body } = await http.post(`/goods-stock/${goodsNo}/purchase`).expect(400);
      expect(body.message).toBe('a goods number is 1 to 64 lower-case letters, digits and hyphens');
      await http.get(`/goods-stock/${goodsNo}`).expect(400);
    },
  );

  it.each([undefined, '5', -1, 1.5, 1e9, null])('rejects a stock of %j', async (stock) => {
    const { body } = await reset(stock).expect(400);
    expect(body.message).toMatch(/^the body must be \{ "stock": n \}/);
  });

  it('names the parameter and the value of a wrong order', async () => {
    const { body } = await http.post('/orders/x/pay').expect(400);
    expect(body.message).toBe('orderId must be a whole number, but is "x"');
  });

  it('ignores the body of a GET', async () => {
    await http.get('/goods-stock/phone').send({ stock: 1 }).expect(200);
  });

  it.each(['/goods-stock/phone/purchase', '/goods-stock/phone/purchase-unlocked', '/orders/1/pay'])(
    'answers 503 to %s while another process keeps the write lock of the database',
    async (path) => {
      await reset(1).expect(200);
      const [directory] = await readdir(shop.directory);
      const other = new sqlite(join(shop.directory, directory!, 'shop.sqlite'));
      try {
        other.exec('BEGIN IMMEDIATE');
        const { body } = await http.post(path).expect(503);
        expect(body.message).toBe('the database is busy: try again later');
      } finally {
        other.close();
      }
    },
  );

  it('serves the metrics of its locks to Prometheus', async () => {
    await reset(2).expect(200);
    const { text, type } = await http.get('/metrics').expect(200);
    expect(type).toBe('text/plain');
    expect(text).toMatch(/^zookeeper_lock_grants_total\{.*kind="cold".*\} [1-9]/m);
    expect(text).toMatch(/^zookeeper_lock_waiters\{.*recipe="mutex".*\} 0$/m);
    expect(text).toMatch(/^zookeeper_lock_wait_duration_bucket\{.*outcome="granted".*le="1"/m);
    expect(text).toMatch(/^zookeeper_lock_hold_duration_count\{.*end="released".*\} [1-9]/m);
    expect(text).toMatch(/^zookeeper_connection_count\{.*state="CONNECTED".*\} 1$/m);
  });

  it('sells no item twice to concurrent buyers of one process', async () => {
    await reset(10);
    const answers = await Promise.all(
      Array.from({ length: 30 }, () => http.post('/goods-stock/phone/purchase')),
    );
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(10);
    expect(answers.filter(({ status }) => status === 409)).toHaveLength(20);
    await http
      .get('/goods-stock/phone')
      .expect(200, { goodsNo: 'phone', stock: 0, isActive: true, orders: 10 });
  });

  it('deletes its database when it is stopped', async () => {
    await shop.stop();
    expect(await readdir(shop.directory)).toEqual([]);
  });
});
