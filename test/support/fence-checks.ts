import { Mutex } from 'nestjs-zookeeper/recipes';
import type { Lease } from 'nestjs-zookeeper/recipes';
import type { fence as realFence } from 'nestjs-zookeeper/fence';
import { expect } from 'vitest';
import type { FencedDatabase } from './fenced-databases.js';
import { Gate } from './gate.js';
import type { TestServer } from './servers.js';

/** A way to take a fence: that of the library, or one with a planted bug. */
export type Fence = (tx: object, lease: Lease, database: FencedDatabase) => Promise<void>;
export type { realFence };

/** An odd number that a double cannot represent, as large as the tokens of the embedded server. */
export const TOKEN = 1_760_000_000_000_000_001n;

/** Returns a held lease with this token. */
export function leaseWith(fencingToken: bigint, path = '/locks/gold'): Lease {
  const { signal } = new AbortController();
  const lease: Pick<Lease, 'key' | 'path' | 'fencingToken' | 'signal' | 'held'> = {
    key: 'gold',
    path,
    fencingToken,
    signal,
    held: true,
  };
  return lease as Lease;
}

/** A lease as its holder saw it right before a pause, after it had checked that the lease is held. */
const beforePause = (lease: Lease): Lease =>
  Object.create(lease, { held: { value: true } }) as Lease;

const stale = expect.objectContaining({ code: 'STALE_LEASE' });

const stockIn = async (database: FencedDatabase, tx?: object) =>
  Number((await database.query("SELECT stock FROM goods WHERE id = 'gold'", tx))[0]!.stock);
const writeStock = (database: FencedDatabase, stock: number, tx: object) =>
  database.query(`UPDATE goods SET stock = ${stock} WHERE id = 'gold'`, tx);
const ordersIn = async (database: FencedDatabase) =>
  (await database.query('SELECT buyer FROM orders ORDER BY buyer')).map(({ buyer }) => buyer);

/** Each check rejects if the fence does not do what its name says. */
export const CHECKS = {
  async 'accepts a token again, and refuses each lower one'(
    database: FencedDatabase,
    fence: Fence,
  ) {
    const take = (token: bigint, path?: string) =>
      database.transaction((tx) => fence(tx, leaseWith(token, path), database));
    await take(9n);
    await take(10n);
    await expect(take(9n)).rejects.toEqual(stale);
    await take(TOKEN);
    await take(TOKEN);
    await expect(take(TOKEN - 1n)).rejects.toEqual(stale);
    await take(TOKEN + 1n);
    await expect(take(TOKEN)).rejects.toEqual(stale);
    await take(2n ** 63n - 1n);
    // The fences of other locks, whose paths differ little.
    for (const path of ['/locks/Gold', '/locks/gold ', "/locks/'gold\\?$1", '/locks/黄金']) {
      await take(1n, path);
      await take(1n, path);
    }
  },

  async 'rolls the transaction of a refused token back'(database: FencedDatabase, fence: Fence) {
    await database.transaction((tx) => fence(tx, leaseWith(TOKEN), database));
    const late = database.transaction(async (tx) => {
      await database.query("INSERT INTO orders VALUES ('late')", tx);
      await fence(tx, leaseWith(TOKEN - 1n), database);
    });
    await expect(late).rejects.toEqual(stale);
    expect(await ordersIn(database)).toEqual([]);
  },

  /** Only on a database that several transactions write to at a time. */
  async 'waits for the transaction of an earlier holder, and reads what it wrote'(
    database: FencedDatabase,
    fence: Fence,
    buy: (tx: object, lease: Lease) => Promise<unknown> = async (tx, lease) => {
      await fence(tx, lease, database);
      await writeStock(database, (await stockIn(database, tx)) - 1, tx);
    },
  ) {
    // The row exists: two transactions that insert the same row may not wait in the same way.
    await database.transaction((tx) => fence(tx, leaseWith(1n), database));
    const beforeCommit = new Gate();
    const late = database.transaction(async (tx) => {
      await buy(tx, leaseWith(TOKEN));
      await beforeCommit.pass();
    });
    await Promise.race([beforeCommit.reached, late]);
    const next = database.transaction((tx) => buy(tx, leaseWith(TOKEN + 1n)));
    let settled = false;
    const settle = () => (settled = true);
    next.then(settle, settle);
    await expect.poll(async () => settled || (await hasWaiter(database))).toBe(true);
    beforeCommit.open();
    await Promise.all([late, next]);
    expect(await stockIn(database)).toBe(8);
  },

  async 'refuses the write of a holder that was paused past its session'(
    database: FencedDatabase,
    fence: Fence,
    server: TestServer,
  ) {
    const path = server.path('gold');
    const [first, second] = [server.newClient(), server.newClient()];
    try {
      await Promise.all([first.connect(), second.connect()]);
      const late = beforePause(await new Mutex(first, path).acquire());
      // The pause: the server does not hear from the first client until its session has timed out.
      await server.expire(await first.session());
      await new Mutex(second, path).withLock((lease) =>
        database.transaction(async (tx) => {
          await fence(tx, lease, database);
          await writeStock(database, (await stockIn(database, tx)) - 1, tx);
          await database.query("INSERT INTO orders VALUES ('second')", tx);
        }),
      );
      const writing = database.transaction(async (tx) => {
        await database.query("INSERT INTO orders VALUES ('first')", tx);
        await fence(tx, late, database);
        await writeStock(database, 9, tx);
      });
      await expect(writing).rejects.toEqual(stale);
      expect(await ordersIn(database)).toEqual(['second']);
      expect(await stockIn(database)).toBe(9);
    } finally {
      await Promise.all([first.close(), second.close()]);
    }
  },
};

/** Resolves to whether a transaction waits for a lock of another one. */
async function hasWaiter(database: FencedDatabase): Promise<boolean> {
  if (database.dialect === 'postgres')
    return (await database.query('SELECT pid FROM pg_locks WHERE NOT granted')).length > 0;
  // Not innodb_trx, which may show the waiter of an earlier test: MariaDB keeps that table for 100 ms.
  const [status] = await database.query('SHOW ENGINE INNODB STATUS');
  return String(status!.Status).includes('LOCK WAIT');
}
