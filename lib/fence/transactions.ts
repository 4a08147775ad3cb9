import { BadOptionError } from '../client/errors.js';
import type { FenceDialect } from './sql.js';

/** A transaction of a library that was recognized. */
export interface FencedTransaction {
  readonly dialect: FenceDialect;
  /** Runs a statement without rows. */
  run(sql: string, params: readonly string[]): Promise<void>;
  /** Runs a statement that returns one row, and resolves to its column `token`; undefined without a row. */
  token(sql: string, params: readonly string[]): Promise<unknown>;
}

/** What an adapter finds out about an object of its library. */
interface Recognized {
  /** What the library calls its database. */
  readonly database: unknown;
  /** False if the object is visibly outside of a transaction; undefined if the library does not show it. */
  readonly inTransaction: boolean | undefined;
  /** Whether the parameters of a statement are `$1`, `$2` instead of `?`. */
  readonly numbered?: boolean;
  /** Runs a statement with rows. Returns the rows, an object with `rows`, or a list that begins with the rows. */
  readonly rows: (sql: string, params: readonly string[]) => Foreign;
  /** Runs a statement without rows. Default: `rows`. */
  readonly run?: (sql: string, params: readonly string[]) => Foreign;
  /** Returns what the reply to a statement without rows shows about the transaction. */
  readonly ranInTransaction?: (reply: Foreign) => boolean;
}

/** The methods and properties of an object of a library, which is not imported. */
// oxlint-disable-next-line typescript/no-explicit-any
type Foreign = any;

interface Adapter {
  readonly library: string;
  /** What its user passes to `fence`. */
  readonly expected: string;
  /** Returns undefined for an object of another library. */
  recognize(tx: Foreign): Recognized | undefined;
}

const has = (value: Foreign, ...methods: string[]) =>
  methods.every((method) => typeof value?.[method] === 'function');

/** Each object matches at most one adapter, so their order does not matter. */
const ADAPTERS: readonly Adapter[] = [
  {
    library: 'TypeORM',
    expected:
      'the EntityManager of dataSource.transaction(), or a QueryRunner after startTransaction()',
    recognize(tx) {
      if (!has(tx, 'query', 'getRepository') && !has(tx, 'query', 'startTransaction'))
        return undefined;
      const runner = has(tx, 'startTransaction') ? tx : tx.queryRunner;
      const { type } = (tx.dataSource ?? tx.connection ?? tx).options;
      return {
        database: type,
        inTransaction: runner?.isTransactionActive === true,
        numbered: type === 'postgres',
        rows: (sql, params) => runner.query(sql, params),
      };
    },
  },
  {
    library: 'Prisma',
    expected: 'the client that $transaction(async (tx) => …) passes to its callback',
    recognize(tx) {
      if (!has(tx, '$queryRawUnsafe', '$executeRawUnsafe')) return undefined;
      const database = tx._activeProvider;
      return {
        database,
        // Newer versions nest transactions, so their clients have $transaction too.
        inTransaction:
          tx[Symbol.for('prisma.client.transaction.id')] !== undefined || !has(tx, '$transaction'),
        numbered: database === 'postgresql',
        rows: (sql, params) => tx.$queryRawUnsafe(sql, ...params),
        run: (sql, params) => tx.$executeRawUnsafe(sql, ...params),
      };
    },
  },
  {
    library: 'Drizzle',
    expected: 'the tx of db.transaction()',
    recognize(tx) {
      const database = tx.dialect?.constructor?.[Symbol.for('drizzle:entityKind')];
      if (typeof database !== 'string') return undefined;
      // Drizzle asks an object of its tag `sql` for its text and its parameters, and so it accepts any object that has them.
      const query = (sql: string, params: readonly string[]) => ({
        getSQL() {
          return this;
        },
        toQuery: () => ({ sql, params }),
      });
      const method = has(tx, 'execute') ? 'execute' : 'all';
      return {
        database,
        inTransaction: has(tx, 'rollback'),
        numbered: database === 'PgDialect',
        rows: (sql, params) => tx[method](query(sql, params)),
        run: (sql, params) => tx[has(tx, 'run') ? 'run' : method](query(sql, params)),
      };
    },
  },
  {
    library: 'Knex',
    expected: 'the trx of knex.transaction()',
    recognize(tx) {
      if (!has(tx, 'raw', 'queryBuilder')) return undefined;
      return {
        database: tx.client?.dialect,
        inTransaction: tx.isTransaction === true && !tx.isCompleted(),
        rows: (sql, params) => tx.raw(sql, params),
      };
    },
  },
  {
    library: 'MikroORM',
    expected: 'the EntityManager of em.transactional()',
    recognize(tx) {
      if (!has(tx, 'isInTransaction', 'execute', 'getPlatform')) return undefined;
      return {
        database: tx.getPlatform().constructor.name,
        inTransaction: tx.isInTransaction(),
        rows: (sql, params) => tx.execute(sql, params, 'all'),
        run: (sql, params) => tx.execute(sql, params, 'run'),
      };
    },
  },
  {
    library: 'pg',
    expected: 'a client after BEGIN, not the pool',
    recognize(tx) {
      const isPool = has(tx, 'query', 'connect') && 'idleCount' in tx;
      if (!isPool && !has(tx, 'query', 'escapeLiteral')) return undefined;
      // The status that the server sent with the last reply. Older versions do not keep it.
      const status = tx.getTransactionStatus?.();
      return {
        database: 'postgres',
        inTransaction: isPool ? false : status && status !== 'I',
        numbered: true,
        rows: (sql, params) => tx.query(sql, params),
      };
    },
  },
  {
    library: 'mysql2',
    expected: 'a connection after beginTransaction(), not the pool',
    recognize(tx) {
      const isPool = has(tx, 'execute', 'getConnection');
      if (!isPool && !has(tx, 'execute', 'beginTransaction')) return undefined;
      const connection = has(tx, 'promise') ? tx.promise() : tx;
      return {
        database: 'mysql',
        inTransaction: isPool ? false : undefined,
        // Not query(), which writes the parameters into the statement by rules that a server may not share.
        rows: (sql, params) => connection.execute(sql, params),
        // The server tells with each reply whether a transaction is open.
        ranInTransaction: ([{ serverStatus }]) =>
          serverStatus === undefined || (serverStatus & SERVER_STATUS_IN_TRANS) !== 0,
      };
    },
  },
  {
    library: 'libsql',
    expected: "the result of client.transaction('write')",
    recognize(tx) {
      if (!has(tx, 'execute', 'executeMultiple', 'batch')) return undefined;
      return {
        database: 'sqlite',
        inTransaction: has(tx, 'commit') && !tx.closed,
        rows: (sql, args) => tx.execute({ sql, args }),
      };
    },
  },
  {
    library: 'better-sqlite3 or node:sqlite',
    expected: 'a database after BEGIN',
    recognize(tx) {
      if (!has(tx, 'prepare', 'exec')) return undefined;
      return {
        database: 'sqlite',
        inTransaction: tx.inTransaction ?? tx.isTransaction,
        rows: (sql, params) => tx.prepare(sql).all(...params),
        run: (sql, params) => tx.prepare(sql).run(...params),
      };
    },
  },
];

/** A flag of MySQL's protocol. */
const SERVER_STATUS_IN_TRANS = 1;

/** What the libraries call the databases, in lower case. */
const DATABASES: readonly (readonly [RegExp, FenceDialect])[] = [
  [/^(postgres|postgresql|pgdialect|postgresqlplatform)$/, 'postgres'],
  [/^(mysql|mariadb|mysqldialect|mysqlplatform|mariadbplatform)$/, 'mysql'],
  [/^(better-sqlite3|sqlite3?|sqljs|sqliteplatform|libsqlplatform|sqlitea?syncdialect)$/, 'sqlite'],
];

/**
 * Returns the transaction behind an object of a library.
 *
 * @throws BadOptionError for an object of an unknown library or database, or outside of a transaction
 */
export function transactionOf(tx: unknown): FencedTransaction {
  for (const { library, expected, recognize } of ADAPTERS) {
    const found = recognize(tx);
    if (!found) continue;
    const { database, inTransaction, numbered, rows, run = rows, ranInTransaction } = found;
    const outside = () =>
      refused(
        `tx must be in a transaction, but is an object of ${library} outside of one. A fence outside of the transaction protects nothing: pass ${expected}`,
      );
    if (inTransaction === false) throw outside();
    const name = String(database).toLowerCase();
    const dialect = DATABASES.find(([names]) => names.test(name))?.[1];
    if (!dialect) {
      const known = 'PostgreSQL, MySQL, MariaDB and SQLite';
      throw refused(
        `tx is a transaction of ${library} on ${name}, and fence() knows only ${known}`,
      );
    }
    const text = (sql: string) => {
      let count = 0;
      return numbered ? sql.replaceAll('?', () => `$${++count}`) : sql;
    };
    return {
      dialect,
      async run(sql, params) {
        const reply = await run(text(sql), params);
        if (ranInTransaction?.(reply) === false) throw outside();
      },
      async token(sql, params) {
        const reply = await rows(text(sql), params);
        const list = Array.isArray(reply) ? reply : reply?.rows;
        const [row] = Array.isArray(list?.[0]) ? list[0] : (list ?? []);
        return row?.token;
      },
    };
  }
  const known = ADAPTERS.map(({ library, expected }) => `${library} (${expected})`).join(', ');
  throw new BadOptionError('tx', tx, `a transaction of one of these libraries: ${known}`);
}

function refused(message: string): BadOptionError {
  return new BadOptionError('tx', undefined, { message });
}
