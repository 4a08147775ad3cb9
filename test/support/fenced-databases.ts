import { createRequire } from 'node:module';
import { createClient } from '@libsql/client';
import { MikroORM as LibSqlMikroORM } from '@mikro-orm/libsql';
import { MikroORM as MariaDbMikroORM } from '@mikro-orm/mariadb';
import { MikroORM as PostgresMikroORM } from '@mikro-orm/postgresql';
import { sql } from 'drizzle-orm';
import { drizzle as drizzleLibSql } from 'drizzle-orm/libsql';
import { drizzle as drizzleMysql } from 'drizzle-orm/mysql2';
import { drizzle as drizzlePostgres } from 'drizzle-orm/node-postgres';
import knex from 'knex';
import libsql from 'libsql';
import mysql from 'mysql2';
import mysqlPromise from 'mysql2/promise';
import { type FenceDialect, fenceTable } from 'nestjs-zookeeper/fence';
import pg from 'pg';
import { DataSource, type DataSourceOptions } from 'typeorm';

type Row = Record<string, unknown>;

/** A database that a library has opened, with the tables `lock_fences`, `goods` and `orders`. */
export interface FencedDatabase extends AsyncDisposable {
  readonly dialect: FenceDialect;
  /** Runs `work` in a transaction of the library, and rolls it back if `work` rejects. */
  transaction<T>(work: (tx: object) => Promise<T>): Promise<T>;
  /** Runs a statement in a transaction, or outside of all. */
  query(statement: string, tx?: object): Promise<Row[]>;
  /** Objects of the library that are in no transaction, by what they are. */
  readonly outside: Readonly<Record<string, object>>;
}

/** What an opener knows of its library. */
type Opened = Omit<FencedDatabase, 'dialect' | typeof Symbol.asyncDispose> & {
  close(): Promise<unknown>;
};
type Open = (url: string) => Promise<Opened>;

/** Returns the rows in the replies of all libraries. */
function rowsOf(reply: unknown): Row[] {
  if (Array.isArray(reply)) return (Array.isArray(reply[0]) ? reply[0] : reply) as Row[];
  return ((reply as { rows?: Row[] } | undefined)?.rows ?? []) as Row[];
}

const typeorm =
  (options: (url: string) => DataSourceOptions): Open =>
  async (url) => {
    const database = await new DataSource(options(url)).initialize();
    return {
      transaction: (work) => database.transaction(work),
      query: async (statement, tx) =>
        rowsOf(await ((tx ?? database) as DataSource).query(statement)),
      outside: {
        'the DataSource': database,
        'its manager': database.manager,
        'a QueryRunner': database.createQueryRunner(),
      },
      close: () => database.destroy(),
    };
  };

const SqliteOfKnex = createRequire(import.meta.url)(
  'knex/lib/dialects/better-sqlite3',
) as new () => object;

/** Knex has no dialect for this package, which has the interface of better-sqlite3. */
class KnexOfLibSql extends SqliteOfKnex {
  _driver() {
    return libsql;
  }
}

const knexOn =
  (client: unknown): Open =>
  async (url) => {
    const connection = client === KnexOfLibSql ? { filename: ':memory:' } : url;
    const options = { client, connection, useNullAsDefault: true } as knex.Knex.Config;
    const database = knex(options);
    let ended!: knex.Knex.Transaction;
    await database.transaction(async (trx) => void (ended = trx));
    return {
      transaction: (work) => database.transaction((trx) => work(trx)),
      query: async (statement, tx) => rowsOf(await ((tx ?? database) as knex.Knex).raw(statement)),
      outside: { 'the instance': database, 'a transaction that has ended': ended },
      close: () => database.destroy(),
    };
  };

const mikroOrm =
  (Orm: typeof PostgresMikroORM | typeof MariaDbMikroORM | typeof LibSqlMikroORM): Open =>
  async (url) => {
    const where = url === ':memory:' ? { dbName: url } : { clientUrl: url };
    const orm = await (Orm as typeof LibSqlMikroORM).init({
      ...where,
      entities: [],
      discovery: { warnWhenNoEntities: false },
    });
    return {
      transaction: (work) => orm.em.transactional(work),
      query: async (statement, tx) =>
        rowsOf(await ((tx ?? orm.em) as typeof orm.em).execute(statement)),
      outside: { 'the EntityManager': orm.em, 'a fork': orm.em.fork() },
      close: () => orm.close(),
    };
  };

/** Begins and ends a transaction with statements. */
async function between<T>(run: (statement: string) => unknown, work: () => Promise<T>): Promise<T> {
  await run('BEGIN');
  try {
    const result = await work();
    await run('COMMIT');
    return result;
  } catch (error) {
    await run('ROLLBACK');
    throw error;
  }
}

/** A library with a pool of connections, of which each begins its transaction with a statement. */
async function pooled<C extends { release(): void }>(
  pool: object,
  connect: () => Promise<C>,
  query: (on: object, statement: string) => Promise<unknown>,
  end: () => Promise<void>,
): Promise<Opened> {
  const idle = await connect();
  return {
    async transaction(work) {
      const connection = await connect();
      try {
        return await between(
          (statement) => query(connection, statement),
          () => work(connection),
        );
      } finally {
        connection.release();
      }
    },
    query: async (statement, tx) => rowsOf(await query(tx ?? pool, statement)),
    outside: { 'the pool': pool, 'a connection before BEGIN': idle },
    async close() {
      idle.release();
      await end();
    },
  };
}

const OPEN: Readonly<Record<'postgres' | 'mariadb' | 'sqlite', Readonly<Record<string, Open>>>> = {
  postgres: {
    TypeORM: typeorm((url) => ({ type: 'postgres', url })),
    Drizzle: async (url) => {
      const pool = new pg.Pool({ connectionString: url });
      const database = drizzlePostgres(pool);
      return {
        transaction: (work) => database.transaction(work),
        query: async (statement, tx) =>
          rowsOf(await ((tx ?? database) as typeof database).execute(sql.raw(statement))),
        outside: { 'the database': database },
        close: () => pool.end(),
      };
    },
    Knex: knexOn('pg'),
    MikroORM: mikroOrm(PostgresMikroORM),
    pg: (url) => {
      const pool = new pg.Pool({ connectionString: url });
      return pooled(
        pool,
        () => pool.connect(),
        (on, statement) => (on as pg.Pool).query(statement),
        () => pool.end(),
      );
    },
  },
  mariadb: {
    TypeORM: typeorm((url) => ({ type: 'mariadb', url })),
    Drizzle: async (url) => {
      const pool = mysqlPromise.createPool(url);
      const database = drizzleMysql(pool);
      return {
        transaction: (work) => database.transaction(work),
        query: async (statement, tx) =>
          rowsOf(await ((tx ?? database) as typeof database).execute(sql.raw(statement))),
        outside: { 'the database': database },
        close: () => pool.end(),
      };
    },
    Knex: knexOn('mysql2'),
    MikroORM: mikroOrm(MariaDbMikroORM),
    mysql2: (url) => {
      const pool = mysqlPromise.createPool(url);
      return pooled(
        pool,
        () => pool.getConnection(),
        (on, statement) => (on as typeof pool).query(statement),
        () => pool.end(),
      );
    },
    'mysql2 with callbacks': (url) => {
      const pool = mysql.createPool(url);
      const connect = () =>
        new Promise<mysql.PoolConnection>((resolve, reject) =>
          pool.getConnection((error, connection) => (error ? reject(error) : resolve(connection))),
        );
      return pooled(
        pool,
        connect,
        (on, statement) => (on as typeof pool).promise().query(statement),
        () => pool.promise().end(),
      );
    },
  },
  sqlite: {
    TypeORM: typeorm((database) => ({ type: 'better-sqlite3', database, driver: libsql })),
    Drizzle: async (url) => {
      const client = createClient({ url });
      const database = drizzleLibSql(client);
      return {
        transaction: (work) => database.transaction(work),
        query: async (statement, tx) =>
          rowsOf(await ((tx ?? database) as typeof database).all(sql.raw(statement))),
        outside: { 'the database': database },
        close: async () => client.close(),
      };
    },
    Knex: knexOn(KnexOfLibSql),
    MikroORM: mikroOrm(LibSqlMikroORM),
    libsql: async (url) => {
      const client = createClient({ url });
      const ended = await client.transaction('write');
      await ended.commit();
      return {
        async transaction(work) {
          const tx = await client.transaction('write');
          try {
            const result = await work(tx);
            await tx.commit();
            return result;
          } finally {
            tx.close();
          }
        },
        query: async (statement, tx) =>
          rowsOf(await ((tx ?? client) as typeof client).execute(statement)),
        outside: { 'the client': client, 'a transaction that has ended': ended },
        close: async () => client.close(),
      };
    },
    'better-sqlite3': async (url) => {
      const database = new libsql(url);
      return {
        transaction: (work) =>
          between(
            (text) => database.exec(text),
            () => work(database),
          ),
        query: async (statement) => {
          const prepared = database.prepare(statement);
          if (prepared.reader) return prepared.all() as Row[];
          prepared.run();
          return [];
        },
        outside: { 'a database before BEGIN': database },
        close: async () => database.close(),
      };
    },
  },
};

/** The libraries, by the database on which the tests run them. */
export const LIBRARIES = {
  postgres: Object.keys(OPEN.postgres),
  mariadb: Object.keys(OPEN.mariadb),
  sqlite: Object.keys(OPEN.sqlite),
};

const TABLES = {
  lock_fences: '',
  goods: 'CREATE TABLE goods (id varchar(64) PRIMARY KEY, stock integer NOT NULL)',
  orders: 'CREATE TABLE orders (buyer varchar(64) PRIMARY KEY)',
};

/** Opens a database with a library. Its tables are new, and ten pieces of gold are in stock. */
export async function openDatabase(
  dialect: keyof typeof OPEN,
  library: string,
  url: string,
  fences = fenceTable(dialect),
): Promise<FencedDatabase> {
  const { close, ...opened } = await OPEN[dialect][library]!(url);
  const database = { ...opened, dialect, [Symbol.asyncDispose]: async () => void (await close()) };
  for (const [table, create] of Object.entries({ ...TABLES, lock_fences: fences })) {
    await database.query(`DROP TABLE IF EXISTS ${table}`);
    await database.query(create);
  }
  await database.query("INSERT INTO goods VALUES ('gold', 10)");
  return database;
}
