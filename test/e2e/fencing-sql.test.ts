import libsql from 'libsql';
import { it } from 'vitest';
import { expectOrder, useDatabase } from './fencing-sql.js';

const database = useDatabase(() => ({
  type: 'better-sqlite3',
  database: ':memory:',
  driver: libsql,
}));

// MariaDB is in mariadb.slow.test.ts.
it('a fence in SQLite accepts a token again, and rejects a lower one', () =>
  expectOrder(database()));
