import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { TypeOrmModule } from '@nestjs/typeorm';
import { Test } from '@nestjs/testing';
import sqlite from 'libsql';
import { DataSource } from 'typeorm';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { dataSourceOptions, prepareDatabase } from '../../../sample-app/shop/database.js';
import { GoodsStock } from '../../../sample-app/shop/goods-stock.entity.js';
import { GoodsStockService } from '../../../sample-app/shop/goods-stock.service.js';
import { Order } from '../../../sample-app/shop/order.entity.js';
import { defaults, SHOP_SETTINGS } from '../../../sample-app/shop/settings.js';
import { Transactions } from '../../../sample-app/shop/transactions.js';
import { leaseWith } from '../../support/fence-checks.js';

/** Above 2^53, as the tokens of a real lock are, so that a double cannot represent it. */
const TOKEN = 1_814_398_509_481_984_001n;

describe('the stock of goods', () => {
  let directory: string;
  let close: () => Promise<void>;
  let goods: GoodsStockService;
  let dataSource: DataSource;
  const settings = { ...defaults, delay: [20, 20] as [number, number], database: '' };

  beforeEach(async () => {
    settings.delay = [20, 20];
    directory = await mkdtemp(join(tmpdir(), 'goods-stock-'));
    settings.database = join(directory, 'shop.sqlite');
    await prepareDatabase(settings, [
      { goodsNo: 'phone', stock: 3 },
      { goodsNo: 'camera', stock: 3, isActive: false },
      { goodsNo: 'gone', stock: 0 },
    ]);
    const module = await Test.createTestingModule({
      imports: [
        TypeOrmModule.forRoot(dataSourceOptions(settings)),
        TypeOrmModule.forFeature([GoodsStock, Order]),
      ],
      providers: [GoodsStockService, Transactions, { provide: SHOP_SETTINGS, useValue: settings }],
    }).compile();
    goods = module.get(GoodsStockService);
    dataSource = module.get(DataSource);
    close = () => module.close();
  });

  afterEach(async () => {
    await close();
    await rm(directory, { recursive: true, force: true });
  });

  const fence = async () => {
    const rows = await dataSource.query('SELECT CAST(token AS TEXT) AS token FROM lock_fences');
    return rows[0] && BigInt(rows[0].token);
  };

  it('decreases by one per order, and is oversold by two concurrent buyers without a lock', async () => {
    expect(await goods.purchase('phone')).toEqual({ orderId: 1, goodsNo: 'phone', stock: 2 });
    await Promise.all([goods.purchase('phone'), goods.purchase('phone')]);
    expect(await goods.find('phone')).toMatchObject({ stock: 1, orders: 3 });
  });

  it('rejects unknown goods, goods that are not on sale, and goods that are sold out', async () => {
    await expect(goods.purchase('car')).rejects.toMatchObject({ status: 404 });
    await expect(goods.purchase('camera')).rejects.toMatchObject({ status: 410 });
    await expect(goods.find('car')).rejects.toMatchObject({ status: 404 });
    await expect(goods.reset('car', 1, leaseWith(TOKEN))).rejects.toMatchObject({ status: 404 });
    // Goods that are sold out are rejected before the delay.
    settings.delay = [3_600_000, 3_600_000];
    await expect(goods.purchase('gone')).rejects.toMatchObject({ status: 409 });
  });

  it('rejects a write with a token below the last one', async () => {
    await goods.purchase('phone', leaseWith(TOKEN));
    const late = goods.purchase('phone', leaseWith(TOKEN - 1n));
    await expect(late).rejects.toMatchObject({ status: 412 });
    expect(await goods.find('phone')).toMatchObject({ stock: 2, orders: 1 });
    expect(await fence()).toBe(TOKEN);
  });

  it('rejects the write of a former holder although the next holder has not written yet', async () => {
    settings.delay = [1_000, 1_000];
    const late = goods.purchase('phone', leaseWith(TOKEN));
    await expect.poll(fence, { interval: 5 }).toBe(TOKEN);
    // It reads before the former holder writes, and writes after that.
    settings.delay = [1_100, 1_100];
    const next = goods.purchase('phone', leaseWith(TOKEN + 1n));
    await expect(late).rejects.toMatchObject({ status: 412 });
    await next;
    expect(await goods.find('phone')).toMatchObject({ stock: 2, orders: 1 });
  });

  it('increases again, and accepts the writes of later holders only', async () => {
    await goods.purchase('phone', leaseWith(TOKEN));
    await goods.purchase('phone', leaseWith(TOKEN + 1n));
    expect(await goods.find('phone')).toMatchObject({ stock: 1, orders: 2 });
    expect(await goods.reset('phone', 50, leaseWith(TOKEN + 2n))).toMatchObject({
      stock: 50,
      orders: 0,
    });
    expect(await fence()).toBe(TOKEN + 2n);
    await expect(goods.purchase('phone', leaseWith(TOKEN + 1n))).rejects.toMatchObject({
      status: 412,
    });
  });

  it('does not change when a second instance prepares the same database', async () => {
    await goods.purchase('phone', leaseWith(TOKEN));
    await prepareDatabase(settings, [{ goodsNo: 'phone', stock: 100 }]);
    expect(await goods.find('phone')).toMatchObject({ stock: 2, orders: 1 });
    expect(await fence()).toBe(TOKEN);
  });

  it('is read correctly by an instance that found the database locked', async () => {
    const other = new sqlite(settings.database);
    const write = (stock: number) => other.exec(`UPDATE goods_stock SET stock = ${stock}`);
    other.exec('BEGIN IMMEDIATE');
    write(50);
    await expect(goods.purchase('phone', leaseWith(TOKEN))).rejects.toThrow('database is locked');
    other.exec('COMMIT');
    expect(await goods.find('phone')).toMatchObject({ stock: 50 });
    write(40);
    expect(await goods.find('phone')).toMatchObject({ stock: 40, orders: 0 });
    await goods.purchase('phone', leaseWith(TOKEN));
    expect(await goods.find('phone')).toMatchObject({ stock: 39, orders: 1 });
    other.close();
  });
});
