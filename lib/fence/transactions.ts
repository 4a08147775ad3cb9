import { BadOptionError } from '../client/errors.js';
import type { FenceDialect } from './sql.js';

/** What an adapter finds out about an object of its library. */
interface Opened {
  /** What the library calls its database. */
  readonly database: unknown;
  /** False if the object is visibly outside of a transaction. Not each library shows it. */
  readonly inTransaction: boolean;
  /** Whether the parameters of a statement are `$1`, `$2` instead of `?`. */
  readonly numbered?: boolean;
  /** Runs a statement with rows. Returns the rows, an object with `rows`, or a list that begins with the rows. */
  readonly rows: (sql: string, params: readonly string[]) => Foreign;
  /** Runs a statement without rows. Default: `rows`. */
  readonly run?: (sql: string, params: readonly string[]) => Foreign;
  /** Returns what the reply to a statement without rows shows about the transaction. */
  readonly ranInTransaction?: (reply: Foreign) => boolean;
}

// The methods and properties of an object of a library, which is not imported.
// oxlint-disable-next-line typescript/no-explicit-any
type Foreign = any;

interface Adapter {
  readonly library: string;
  /** What its user passes to `fence`. */
  readonly expected: string;
  /** Recognizes the transactions of the library, and also its objects that are no transactions. */
  is(tx: Foreign): boolean;
  open(tx: Foreign): Opened;
}

const has = (value: Foreign, ...methods: string[]) =>
  methods.every((method) => typeof value?.[method] === 'function');

const drizzleKind = (tx: Foreign): unknown =>
  tx?.dialect?.constructor?.[Symbol.for('drizzle:entityKind')];
/** Drizzle asks an object of its tag `sql` for its text and parameters, and accepts any object that returns them. */
const drizzleSql = (sql: string, params: readonly string[]) => ({
  getSQL() {
    return this;
  },
  toQuery: () => ({ sql, params }),
});

/** Each object matches at most one adapter, so their order does not matter. */
const ADAPTERS: readonly Adapter[] = [
  {
    library: 'TypeORM',
    expected:
      'the EntityManager of dataSource.transaction(), or a QueryRunner after startTransaction()',
    is: (tx) => has(tx, 'query', 'getRepository') || has(tx, 'query', 'startTransaction'),
    open(tx) {
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
    is: (tx) => has(tx, '$queryRawUnsafe', '$executeRawUnsafe'),
    open: (tx) => ({
      database: tx._activeProvider,
      // Not $transaction, which Prisma 7 has in transactions too.
      inTransaction: !has(tx, '$connect'),
      numbered: tx._activeProvider === 'postgresql',
      rows: (sql, params) => tx.$queryRawUnsafe(sql, ...params),
      run: (sql, params) => tx.$executeRawUnsafe(sql, ...params),
    }),
  },
  {
    library: 'Drizzle',
    expected: 'the tx of db.transaction()',
    is: (tx) => typeof drizzleKind(tx) === 'string',
    open: (tx) => ({
      database: drizzleKind(tx),
      inTransaction: has(tx, 'rollback'),
      numbered: drizzleKind(tx) === 'PgDialect',
      // On SQLite there is a method for each kind of statement.
      rows: (sql, params) => tx[has(tx, 'all') ? 'all' : 'execute'](drizzleSql(sql, params)),
      run: (sql, params) => tx[has(tx, 'run') ? 'run' : 'execute'](drizzleSql(sql, params)),
    }),
  },
  {
    library: 'Knex',
    expected: 'the trx of knex.transaction()',
    is: (tx) => has(tx, 'raw', 'queryBuilder'),
    open: (tx) => ({
      database: tx.client?.dialect,
      inTransaction: tx.isTransaction === true && !tx.isCompleted(),
      rows: (sql, params) => tx.raw(sql, params),
    }),
  },
  {
    library: 'MikroORM',
    expected: 'the EntityManager of em.transactional()',
    is: (tx) => has(tx, 'isInTransaction', 'execute', 'getPlatform'),
    open: (tx) => ({
      database: tx.getPlatform().constructor.name,
      inTransaction: tx.isInTransaction(),
      rows: (sql, params) => tx.execute(sql, params, 'all'),
      run: (sql, params) => tx.execute(sql, params, 'run'),
    }),
  },
  {
    library: 'pg',
    expected: 'a client after BEGIN, not the pool',
    is: (tx) => has(tx, 'query', 'escapeLiteral') || isPgPool(tx),
    open: (tx) => ({
      database: 'postgres',
      // The status that the server sent with the last reply, I for idle. Older versions do not keep it.
      inTransaction: !isPgPool(tx) && tx.getTransactionStatus?.() !== 'I',
      numbered: true,
      rows: (sql, params) => tx.query(sql, params),
    }),
  },
  {
    library: 'mysql2',
    expected: 'a connection after beginTransaction(), not the pool',
    is: (tx) =>
      (has(tx, 'execute', 'beginTransaction') || has(tx, 'execute', 'getConnection')) &&
      // The package mariadb has it, and replies in another form.
      !has(tx, 'batch'),
    open: (tx) => ({
      database: 'mysql',
      inTransaction: !has(tx, 'getConnection'),
      // Not query(), which writes the parameters into the statement by rules that a server may not share.
      rows: (sql, params) => (has(tx, 'promise') ? tx.promise() : tx).execute(sql, params),
      // A flag of MySQL's protocol: a transaction is open.
      ranInTransaction: ([{ serverStatus }]) =>
        serverStatus === undefined || (serverStatus & 1) !== 0,
    }),
  },
  {
    library: 'libsql',
    expected: "the result of client.transaction('write')",
    is: (tx) => has(tx, 'execute', 'executeMultiple', 'batch'),
    open: (tx) => ({
      database: 'sqlite',
      inTransaction: has(tx, 'commit') && !tx.closed,
      rows: (sql, args) => tx.execute({ sql, args }),
    }),
  },
  {
    library: 'better-sqlite3 or node:sqlite',
    expected: 'a database after BEGIN',
    is: (tx) => has(tx, 'prepare', 'exec'),
    open: (tx) => ({
      database: 'sqlite',
      inTransaction: tx.inTransaction ?? tx.isTransaction ?? true,
      rows: (sql, params) => tx.prepare(sql).all(...params),
      run: (sql, params) => tx.prepare(sql).run(...params),
    }),
  },
];

const isPgPool = (tx: Foreign) => has(tx, 'query', 'connect') && 'idleCount' in tx;

/** The beginnings of what the libraries call the databases, in lower case. */
const DATABASES: readonly (readonly [RegExp, FenceDialect])[] = [
  [/^(postgres|pgdialect)/, 'postgres'],
  [/^(mysql|mariadb)/, 'mysql'],
  [/^(better-)?(sqlite|libsql|sqljs)/, 'sqlite'],
];

/** A transaction of a library that was recognized. */
export type FencedTransaction = ReturnType<typeof transactionOf>;

/**
 * Returns the transaction behind an object of a library.
 *
 * @throws BadOptionError for an object of an unknown library or database, or outside of a transaction
 */
export function transactionOf(tx: unknown) {
  const adapter = ADAPTERS.find(({ is }) => is(tx));
  if (!adapter) {
    const known = ADAPTERS.map(({ library, expected }) => `${library} (${expected})`).join(', ');
    throw new BadOptionError('tx', tx, `a transaction of one of these libraries: ${known}`);
  }
  const { library, expected, open } = adapter;
  const { database, inTransaction, numbered, rows, run = rows, ranInTransaction } = open(tx);
  const assertInside = (isInside: boolean) => {
    if (isInside) return;
    const message = `tx must be in a transaction, but is an object of ${library} outside of one. A fence outside of the transaction protects nothing: pass ${expected}`;
    throw new BadOptionError('tx', tx, { message });
  };
  assertInside(inTransaction);
  const name = String(database).toLowerCase();
  const dialect = DATABASES.find(([names]) => names.test(name))?.[1];
  const known = 'PostgreSQL, MySQL, MariaDB or SQLite';
  if (!dialect) throw new BadOptionError('tx', tx, `on ${known}, not on ${name} (${library})`);
  const text = (sql: string) => {
    let count = 0;
    return numbered ? sql.replaceAll('?', () => `$${++count}`) : sql;
  };
  return {
    dialect,
    /** Runs a statement without rows. */
    async run(sql: string, params: readonly string[]): Promise<void> {
      const reply = await run(text(sql), params);
      assertInside(ranInTransaction?.(reply) ?? true);
    },
    /** Runs a statement that returns one row, and resolves to its column `token`; undefined without a row. */
    async token(sql: string, params: readonly string[]): Promise<unknown> {
      const reply = await rows(text(sql), params);
      const list = Array.isArray(reply) ? reply : reply?.rows;
      const [row] = Array.isArray(list?.[0]) ? list[0] : (list ?? []);
      return row?.token;
    },
  };
}
