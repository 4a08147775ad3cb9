import { Test, type TestingModule } from '@nestjs/testing';
import libsql from 'libsql';
import {
  BadOptionError,
  LeaderService,
  LeaseLostError,
  LockService,
  NotLeaderError,
  SemaphoreService,
} from 'nestjs-zookeeper';
import { fence, fenceTable } from 'nestjs-zookeeper/fence';
import { FakeLocks } from 'nestjs-zookeeper/testing';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { leaseWith } from '../../support/fence-checks.js';

describe('fence()', () => {
  let database: InstanceType<typeof libsql>;
  let module: TestingModule;
  let fake: FakeLocks;
  let locks: LockService;

  beforeEach(async () => {
    fake = new FakeLocks();
    module = await Test.createTestingModule({ providers: fake.providers }).compile();
    locks = module.get(LockService);
    database = new libsql(':memory:');
    database.exec(fenceTable('sqlite'));
    database.exec('BEGIN');
  });
  afterEach(async () => {
    database.close();
    await module.close();
  });

  /** The paths of the locks and their tokens, in the order in which the fences were taken. */
  const stored = () =>
    database
      .prepare('SELECT lock_path, CAST(token AS TEXT) AS token FROM lock_fences ORDER BY rowid')
      .all()
      .map((row) => Object.values(row as object));

  it('takes the fence of the innermost lease by default', () =>
    locks.withLock('outer', () =>
      locks.withLock('inner', async ({ path, fencingToken }) => {
        await fence(database);
        expect(stored()).toEqual([[path, String(fencingToken)]]);
      }),
    ));

  it('takes the fence of a term, if the leader has no lease', async () => {
    const leaders = module.get(LeaderService);
    await leaders.enter('reports')!.run(() => fence(database));
    const { path, fencingToken } = leaders.term('reports')!;
    expect(stored()).toEqual([[path, String(fencingToken)]]);
  });

  it('takes the fence of the lease rather than of the term around it', () =>
    module
      .get(LeaderService)
      .enter('reports')!
      .run(() =>
        locks.withLock('gold', async ({ path, fencingToken }) => {
          await fence(database);
          expect(stored()).toEqual([[path, String(fencingToken)]]);
        }),
      ));

  it('accepts a client of a pg that does not keep the status of its transaction', async () => {
    const tx = { query: async () => ({ rows: [{ token: '1' }] }), escapeLiteral() {} };
    await fence(tx, leaseWith(1n));
  });

  it('takes the fences of a multi-lock in the order of the paths, with the token of each lock', () =>
    locks.withLock(['b', 'a'], async ({ leases }) => {
      await fence(database);
      const [b, a] = leases;
      expect(stored()).toEqual([
        [a!.path, String(a!.fencingToken)],
        [b!.path, String(b!.fencingToken)],
      ]);
    }));

  it('refuses a lease that is lost or released, or a term that is over, before it asks the database', async () => {
    const released = await locks.acquire('released');
    await released.release();
    await expect(fence(database, released)).rejects.toThrow(LeaseLostError);
    const lost = await locks.acquire('lost');
    fake.lose('lost');
    await expect(fence(database, lost)).rejects.toThrow(lost.signal.reason as Error);
    const term = module.get(LeaderService).term('reports')!;
    fake.lose('reports');
    await expect(fence(database, term)).rejects.toThrow(NotLeaderError);
    expect(stored()).toEqual([]);
  });

  it('refuses a lease that others share, and a call without a lease', async () => {
    const reader = await locks.acquire('pages', { mode: 'read' });
    await expect(fence(database, reader)).rejects.toThrow('is one of a read lock');
    const permit = await module.get(SemaphoreService).acquire('seats', { permits: 2 });
    await expect(fence(database, permit)).rejects.toThrow('is one of a semaphore');
    await expect(fence(database)).rejects.toThrow('fence() found no lease');
    await locks.withLock('pages', { mode: 'write' }, () => fence(database));
  });

  it('refuses a token that is a number', async () => {
    const lease = { ...leaseWith(1n), fencingToken: 1 } as never;
    await expect(fence(database, lease)).rejects.toThrow('lease.fencingToken must be a bigint');
  });

  it('refuses an object that is no lease', async () => {
    const lease = { path: '/locks/pages', fencingToken: 1n } as never;
    await expect(fence(database, lease)).rejects.toThrow('lease must be a lease or a term');
  });

  const ofMariaDb = { execute() {}, beginTransaction() {}, format() {}, batch() {} };

  it.each([[{}], [{ query() {} }], [null], ['BEGIN'], [async () => {}], [ofMariaDb]])(
    'refuses an unknown object, and names the libraries: %o',
    async (tx) => {
      const taking = fence(tx as never, leaseWith(1n));
      await expect(taking).rejects.toThrow(BadOptionError);
      await expect(taking).rejects.toThrow(
        /TypeORM .*Prisma .*Drizzle .*Knex .*MikroORM .*pg .*mysql2 .*libsql .*better-sqlite3/,
      );
    },
  );

  it('names the database that it does not know', async () => {
    const tx = Object.assign(() => {}, {
      ...{ raw() {}, queryBuilder() {}, isCompleted: () => false },
      ...{ isTransaction: true, client: { dialect: 'oracle' } },
    });
    await expect(fence(tx, leaseWith(1n))).rejects.toThrow(
      'tx must be on PostgreSQL, MySQL, MariaDB or SQLite, not on oracle (Knex)',
    );
  });

  it('passes on the error of a database without the table', async () => {
    database.exec('DROP TABLE lock_fences');
    await expect(fence(database, leaseWith(1n))).rejects.toThrow('no such table: lock_fences');
  });
});
