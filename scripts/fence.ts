// npm run bench:fence -- [options], which --help lists
import Libsql from 'libsql';
import { createConnection } from 'mysql2/promise';
import { EmbeddedZooKeeper } from 'nestjs-zookeeper/embedded';
import { fence, fenceTable } from 'nestjs-zookeeper/fence';
import { Mutex, ZkClient } from 'nestjs-zookeeper/recipes';
import pg from 'pg';
import { startMariaDb } from './databases/mariadb.js';
import { startPostgres } from './databases/postgres.js';
import { jsonOption, readOptions, wholeNumberOption } from './options.mjs';
import { percentile } from './percentile.js';

const { transactions, json } = readOptions({
  name: 'bench:fence',
  about: `Measures a transaction that reads a row and writes it, with and without fence(), in turns: on PostgreSQL and MariaDB of
Debian, on loopback, and on SQLite in memory. Needs postgresql and mariadb-server.

The exit code is 0, and 2 for a wrong option.`,
  options: {
    transactions: wholeNumberOption('number of transactions of each kind', 2_000, {
      min: 10,
      max: 100_000,
    }),
    json: jsonOption,
  },
});

/** A connection to a database, and the number of statements of its fence. */
interface Database {
  readonly connection: object;
  readonly statements: number;
  run(sql: string): unknown;
  close(): unknown;
}

const DATABASES: Readonly<Record<'postgres' | 'mariadb' | 'sqlite', () => Promise<Database>>> = {
  async postgres() {
    const server = await startPostgres();
    const connection = new pg.Client({ connectionString: server.url });
    await connection.connect();
    const close = () => connection.end().then(() => server[Symbol.asyncDispose]());
    return { connection, statements: 1, run: (sql) => connection.query(sql), close };
  },
  async mariadb() {
    const server = await startMariaDb();
    const connection = await createConnection(server.url);
    const close = () => connection.end().then(() => server[Symbol.asyncDispose]());
    return { connection, statements: 2, run: (sql) => connection.query(sql), close };
  },
  async sqlite() {
    const connection = new Libsql(':memory:');
    const close = () => connection.close();
    return { connection, statements: 2, run: (sql) => connection.exec(sql), close };
  },
};

const zookeeper = await EmbeddedZooKeeper.start();
const client = new ZkClient({ connectString: zookeeper.connectString });
await client.connect();
const lease = await new Mutex(client, '/locks/goods').acquire();
const result: Record<string, object> = {};
for (const [name, open] of Object.entries(DATABASES)) {
  const { connection, statements, run, close } = await open();
  await run(fenceTable(name as keyof typeof DATABASES));
  await run('CREATE TABLE goods (id integer PRIMARY KEY, stock integer NOT NULL)');
  await run('INSERT INTO goods VALUES (1, 1000000)');
  const times = { without: [] as number[], with: [] as number[] };
  for (let count = 0; count < 2 * transactions; count++) {
    const fenced = count % 2 === 1;
    const begun = performance.now();
    await run('BEGIN');
    if (fenced) await fence(connection, lease);
    await run('SELECT stock FROM goods WHERE id = 1');
    await run('UPDATE goods SET stock = stock - 1 WHERE id = 1');
    await run('COMMIT');
    times[fenced ? 'with' : 'without'].push(1000 * (performance.now() - begun));
  }
  await close();
  const median = (values: number[]) => Math.round(percentile(values, 0.5)!);
  const row = { statements, without: median(times.without), with: median(times.with) };
  result[name] = row;
  if (!json)
    console.log(
      `${name}: ${row.without} µs, with fence() ${row.with} µs (statements: ${statements})`,
    );
}
await lease.release();
await client.close();
await zookeeper.stop();
if (json) console.log(JSON.stringify(result));
