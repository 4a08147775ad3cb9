import libsql from 'libsql';
import { DataSource, type DataSourceOptions, type EntityManager, EntitySchema } from 'typeorm';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { PrivateMariaDb } from './seckill-mariadb.js';

interface Row {
  id: string;
  stock: number;
  fence: string;
}

const Goods = new EntitySchema<Row>({
  name: 'goods',
  columns: {
    id: { type: 'varchar', length: 64, primary: true },
    stock: { type: 'int' },
    fence: { type: 'bigint', default: 0, select: false },
  },
});

/** An odd number that a double cannot represent, as large as the tokens of the embedded server. */
const TOKEN = 1_760_000_000_000_000_001n;

/** The statement of docs/guides/transactions.md. */
async function takeFence(manager: EntityManager, id: string, fencingToken: bigint) {
  const token = String(fencingToken);
  const { affected } = await manager
    .createQueryBuilder()
    .update(Goods)
    .set({ fence: token })
    .where('id = :id AND fence <= :token', { id, token })
    .execute();
  if (affected === 0) throw new Error(`a later holder of the lock has written ${id}`);
}

/** Opens a fresh database, and returns a function that closes it. */
function useDatabase(start: () => Promise<[DataSourceOptions, (() => Promise<void>)?]>) {
  let stop: (() => Promise<void>) | undefined;
  let database: DataSource;
  beforeAll(async () => {
    const [options, end] = await start();
    stop = end;
    database = await new DataSource({
      ...options,
      entities: [Goods],
      synchronize: true,
    }).initialize();
  });
  beforeEach(async () => {
    await database.getRepository(Goods).clear();
    await database.getRepository(Goods).insert({ id: 'gold', stock: 10 });
  });
  afterAll(async () => {
    await database?.destroy();
    await stop?.();
  });
  return () => database;
}

async function expectOrder(database: DataSource): Promise<void> {
  const take = (token: bigint) =>
    database.transaction((manager) => takeFence(manager, 'gold', token));
  await take(TOKEN);
  await take(TOKEN);
  await expect(take(TOKEN - 1n)).rejects.toThrow('a later holder');
  await take(TOKEN + 1n);
  await expect(take(TOKEN)).rejects.toThrow('a later holder');
}

describe('a fence in SQLite', () => {
  const database = useDatabase(async () => [
    { type: 'better-sqlite3', database: ':memory:', driver: libsql },
  ]);

  it('accepts a token again, and rejects a lower one', () => expectOrder(database()));
});

describe.skipIf(!PrivateMariaDb.installed)('a fence in MariaDB', () => {
  const database = useDatabase(async () => {
    const server = await PrivateMariaDb.start();
    return [{ type: 'mariadb', url: server.url }, () => server[Symbol.asyncDispose]()];
  });

  it('accepts a token again, and rejects a lower one', () => expectOrder(database()));

  it('waits for the transaction of an earlier holder, and reads what it wrote', async () => {
    const late = database().createQueryRunner();
    const next = database().createQueryRunner();
    await late.startTransaction();
    await next.startTransaction();
    await takeFence(late.manager, 'gold', TOKEN);
    await late.manager.update(Goods, { id: 'gold' }, { stock: 9 });

    let taken = false;
    const taking = takeFence(next.manager, 'gold', TOKEN + 1n).then(() => (taken = true));
    await expect
      .poll(() => database().query('SHOW PROCESSLIST'))
      .toContainEqual(expect.objectContaining({ Info: expect.stringMatching(/^UPDATE/) }));
    expect(taken).toBe(false);
    await late.commitTransaction();
    await taking;

    expect(await next.manager.findOneBy(Goods, { id: 'gold' })).toMatchObject({ stock: 9 });
    await next.commitTransaction();
    await Promise.all([late.release(), next.release()]);
  });
});
