import { checkValue, oneOf } from '../client/validation.js';

/**
 * A database that a fence can be in.
 *
 * @publicApi
 */
export type FenceDialect = 'postgres' | 'mysql' | 'mariadb' | 'sqlite';

export const FENCE_TABLE = 'lock_fences';

/**
 * With a text, most collations of MySQL would ignore the case of a path and spaces at its end. MyISAM, which may be the
 * default engine, has no transactions.
 */
const MYSQL_COLUMNS =
  '(lock_path varbinary(3072) PRIMARY KEY, token bigint NOT NULL) ENGINE = InnoDB';

const COLUMNS: Readonly<Record<FenceDialect, string>> = {
  postgres: '(lock_path text PRIMARY KEY, token bigint NOT NULL)',
  mysql: MYSQL_COLUMNS,
  mariadb: MYSQL_COLUMNS,
  sqlite: '(lock_path text PRIMARY KEY NOT NULL, token integer NOT NULL)',
};

/** The databases, as the command line lists them. */
export const FENCE_DIALECTS = Object.keys(COLUMNS) as FenceDialect[];

/**
 * Returns the statement that creates the table of the fences, `lock_fences`, for a migration. The command
 * `npx nestjs-zookeeper fence --sql postgres` prints the same.
 *
 * @throws BadOptionError for an unknown dialect
 * @publicApi
 */
export function fenceTable(dialect: FenceDialect): string {
  checkValue('dialect', dialect, oneOf(...FENCE_DIALECTS));
  return `CREATE TABLE ${FENCE_TABLE} ${COLUMNS[dialect]}`;
}

/** The statements that raise a token and read it back. Their parameters are texts: path and token, or only the path. */
interface FenceSql {
  /** Inserts the token, or raises the stored one if it is lower. Either way it locks the row. */
  readonly raise: string;
  /** Reads the stored token as text. Not needed if `raise` returns it. */
  readonly read?: string;
}

/*
 * The database compares the tokens as 64-bit integers, whatever the type of the column is: MySQL would compare a text with an
 * integer as two doubles, which rounds. The token is read back as text, because drivers read
 * 64 bits as a double, and because a text shows whether a wrong column has rounded the token.
 *
 * Only PostgreSQL returns the row with the same statement. MySQL has no RETURNING, and some drivers of SQLite drop its
 * rows. The second statement cannot meet another token, because the first one has locked the row. In MySQL it reads
 * the latest version of the row with FOR UPDATE, and so it does not begin the snapshot of the transaction.
 */
const MYSQL: FenceSql = {
  raise: `INSERT INTO ${FENCE_TABLE} (lock_path, token) VALUES (?, CAST(? AS SIGNED)) ON DUPLICATE KEY UPDATE token = GREATEST(CAST(token AS SIGNED), CAST(VALUES(token) AS SIGNED))`,
  read: `SELECT CAST(token AS CHAR) AS token FROM ${FENCE_TABLE} WHERE lock_path = ? FOR UPDATE`,
};

export const FENCE_SQL: Readonly<Record<FenceDialect, FenceSql>> = {
  postgres: {
    // Prisma would send the parameter of a cast to bigint as a bigint, so it is declared as a text.
    raise: `INSERT INTO ${FENCE_TABLE} AS fence (lock_path, token) VALUES (?, CAST(CAST(? AS text) AS bigint)) ON CONFLICT (lock_path) DO UPDATE SET token = GREATEST(CAST(fence.token AS bigint), excluded.token) RETURNING CAST(token AS text) AS token`,
  },
  mysql: MYSQL,
  mariadb: MYSQL,
  sqlite: {
    raise: `INSERT INTO ${FENCE_TABLE} (lock_path, token) VALUES (?, CAST(? AS INTEGER)) ON CONFLICT (lock_path) DO UPDATE SET token = max(CAST(token AS INTEGER), CAST(excluded.token AS INTEGER))`,
    read: `SELECT CAST(token AS TEXT) AS token FROM ${FENCE_TABLE} WHERE lock_path = ?`,
  },
};
