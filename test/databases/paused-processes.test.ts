import { EmbeddedZooKeeper } from 'nestjs-zookeeper/embedded';
import { describe, expect, it } from 'vitest';
import { startCommand } from '../support/command.js';
import { openDatabase } from '../support/fenced-databases.js';
import { startMariaDb } from '../../scripts/databases/mariadb.js';
import { startPostgres } from '../../scripts/databases/postgres.js';

const PURCHASES = 500;
const SESSION_TIMEOUT = 300;

describe.each([
  ['postgres', 'pg', startPostgres, 'serial'],
  ['mariadb', 'mysql2', startMariaDb, 'integer AUTO_INCREMENT'],
] as const)('on %s', (dialect, library, start, serial) => {
  it('of a thousand transactions of two processes that are paused, no stale one commits', async () => {
    await using zookeeper = await EmbeddedZooKeeper.start({
      tickTime: 50,
      minSessionTimeout: SESSION_TIMEOUT,
    });
    await using server = await start();
    await using database = await openDatabase(dialect, library, server.url);
    await database.query(
      `CREATE TABLE purchases (nth ${serial} PRIMARY KEY, token bigint, buyer varchar(9))`,
    );
    await database.query(`UPDATE goods SET stock = ${2 * PURCHASES}`);
    const buy = async (buyer: string, pauseEvery: number) => {
      const options = {
        zookeeper: zookeeper.connectString,
        url: server.url,
        path: '/locks/gold',
        buyer,
        sessionTimeout: SESSION_TIMEOUT,
        purchases: PURCHASES,
        pauseEvery,
      };
      const { ended } = startCommand('test/support/fenced-buyer.mjs', [JSON.stringify(options)]);
      const { code, stdout, stderr } = await ended;
      expect([code, stderr]).toEqual([0, '']);
      return JSON.parse(stdout) as { STALE_LEASE: number; LEASE_LOST: number };
    };
    const refused = await Promise.all([buy('one', 71), buy('two', 83)]);

    const purchases = await database.query(
      'SELECT CAST(token AS char(30)) AS token FROM purchases ORDER BY nth',
    );
    const tokens = purchases.map(({ token }) => BigInt(String(token)));
    expect(tokens).toHaveLength(2 * PURCHASES);
    expect(tokens).toEqual(tokens.toSorted((a, b) => (a < b ? -1 : a > b ? 1 : 0)));
    expect(await database.query('SELECT stock FROM goods')).toEqual([{ stock: 0 }]);
    // The pauses were long enough: the database had to refuse some of the transactions.
    expect(refused[0]!.STALE_LEASE + refused[1]!.STALE_LEASE).toBeGreaterThan(0);
  });
});
