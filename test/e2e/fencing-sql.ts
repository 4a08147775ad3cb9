import { DataSource, type DataSourceOptions, type EntityManager, EntitySchema } from 'typeorm';
import { afterAll, beforeAll, beforeEach, expect } from 'vitest';

interface Row {
  id: string;
  stock: number;
  fence: string;
}

export const Goods = new EntitySchema<Row>({
  name: 'goods',
  columns: {
    id: { type: 'varchar', length: 64, primary: true },
    stock: { type: 'int' },
    fence: { type: 'bigint', default: 0, select: false },
  },
});

/** An odd number that a double cannot represent, as large as the tokens of the embedded server. */
export const TOKEN = 1_760_000_000_000_000_001n;

/** The statement of docs/guides/transactions.md. */
export async function takeFence(manager: EntityManager, id: string, fencingToken: bigint) {
  const token = String(fencingToken);
  const { affected } = await manager
    .createQueryBuilder()
    .update(Goods)
    .set({ fence: token })
    .where('id = :id AND fence <= :token', { id, token })
    .execute();
  if (affected === 0) throw new Error(`a later holder of the lock has written ${id}`);
}

/** Opens a fresh database for the tests of the file, with one row. */
export function useDatabase(options: () => DataSourceOptions | Promise<DataSourceOptions>) {
  let database: DataSource;
  beforeAll(async () => {
    const entities = [Goods];
    database = new DataSource({ ...(await options()), entities, synchronize: true });
    await database.initialize();
  });
  beforeEach(async () => {
    await database.getRepository(Goods).clear();
    await database.getRepository(Goods).insert({ id: 'gold', stock: 10 });
  });
  afterAll(() => database?.destroy());
  return () => database;
}

/** Checks that a token is accepted again, and that a lower one is rejected. */
export async function expectOrder(database: DataSource): Promise<void> {
  const take = (token: bigint) =>
    database.transaction((manager) => takeFence(manager, 'gold', token));
  await take(TOKEN);
  await take(TOKEN);
  await expect(take(TOKEN - 1n)).rejects.toThrow('a later holder');
  await take(TOKEN + 1n);
  await expect(take(TOKEN)).rejects.toThrow('a later holder');
}
