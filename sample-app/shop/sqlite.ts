import sqlite from 'libsql';
import type { DataSourceOptions } from 'typeorm';

/** An SQLite file, shared by the instances of the shop on one machine. */
export function sqliteOptions(file: string, busyTimeout: number): DataSourceOptions {
  return {
    type: 'better-sqlite3',
    driver: sqlite,
    database: file,
    enableWAL: true,
    timeout: busyTimeout,
    prepareDatabase(db: sqlite.Database) {
      db.pragma('synchronous = NORMAL');
      lockInBegin(db);
    },
  };
}

/**
 * Makes each transaction acquire the write lock in its first step, where a failure has no effect. If a later
 * prepared statement meets another connection's lock, this driver leaves it unfinished, and the connection
 * keeps reading an old snapshot: a buyer would see stock that is already sold.
 */
function lockInBegin(db: sqlite.Database): void {
  const prepare = db.prepare.bind(db);
  const begin = {
    reader: false,
    run: () => {
      db.exec('BEGIN IMMEDIATE');
      return { changes: 0 };
    },
  };
  db.prepare = ((sql: string) =>
    sql === 'BEGIN TRANSACTION' ? begin : prepare(sql)) as typeof db.prepare;
}
