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
 * Lets a transaction take the write lock in its first step, where it can fail without a trace. A prepared
 * statement that meets another's lock is left half-run by this driver, and the connection goes on
 * reading the data of that moment: a buyer would see stock that is long sold.
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
