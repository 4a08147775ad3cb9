import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type FenceDialect, fenceTable } from 'nestjs-zookeeper/fence';
import { DataSource, type DataSourceOptions, type DeepPartial, Table } from 'typeorm';
import { GoodsStock } from './goods-stock.entity.js';
import { Order } from './order.entity.js';
import type { ShopSettings } from './settings.js';
import { sqliteOptions } from './sqlite.js';

type DatabaseSettings = Pick<ShopSettings, 'database' | 'sessionTimeout'>;

export const DATABASE_SERVERS = ['mysql:', 'mariadb:', 'postgres:', 'postgresql:'];

export function dataSourceOptions(settings: DatabaseSettings): DataSourceOptions {
  return { ...serverOptions(settings), entities: [GoodsStock, Order] };
}

function serverOptions({ database, sessionTimeout }: DatabaseSettings): DataSourceOptions {
  const server = DATABASE_SERVERS.find((protocol) => database.startsWith(protocol));
  if (server?.startsWith('postgres')) return { type: 'postgres', url: database };
  if (server) return { type: 'mysql', url: database };
  // SQLite's busy timeout would block the event loop and with it the ZooKeeper client.
  return sqliteOptions(database, sessionTimeout / 10);
}

/** Creates missing tables and goods; does not change existing ones. */
export async function prepareDatabase(
  settings: DatabaseSettings,
  goods: DeepPartial<GoodsStock>[],
): Promise<void> {
  await connected(settings, async (dataSource) => {
    await using runner = dataSource.createQueryRunner();
    for (const entity of dataSource.entityMetadatas) {
      await runner.createTable(Table.create(entity, dataSource.driver), true);
    }
    if (!(await runner.hasTable('lock_fences'))) {
      const { type } = dataSource.options;
      await runner.query(fenceTable(type === 'better-sqlite3' ? 'sqlite' : (type as FenceDialect)));
    }
    const insert = dataSource.createQueryBuilder().insert().into(GoodsStock).values(goods);
    await insert.orIgnore().updateEntity(false).execute();
  });
}

export async function removeGoods(settings: DatabaseSettings, goodsNo: string): Promise<void> {
  await connected(settings, async ({ manager }) => {
    await manager.delete(Order, { goodsNo });
    await manager.delete(GoodsStock, { goodsNo });
  });
}

async function connected(
  settings: DatabaseSettings,
  work: (dataSource: DataSource) => Promise<void>,
): Promise<void> {
  const dataSource = await new DataSource(dataSourceOptions(settings)).initialize();
  try {
    await work(dataSource);
  } finally {
    await dataSource.destroy();
  }
}

/** Returns the name of an SQLite file that is deleted when this process ends. */
export function temporaryDatabase(): string {
  const directory = mkdtempSync(join(tmpdir(), 'seckill-'));
  process.once('exit', () => rmSync(directory, { recursive: true, force: true }));
  return join(directory, 'shop.sqlite');
}
