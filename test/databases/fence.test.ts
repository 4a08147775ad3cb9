import { fence, StaleLeaseError } from 'nestjs-zookeeper/fence';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { CHECKS, type Fence, leaseWith, TOKEN } from '../support/fence-checks.js';
import { type FencedDatabase, LIBRARIES, openDatabase } from '../support/fenced-databases.js';
import { Gate } from '../support/gate.js';
import { startMariaDb } from '../../scripts/databases/mariadb.js';
import type { PrivateServer } from '../../scripts/databases/private-server.js';
import { startPostgres } from '../../scripts/databases/postgres.js';
import { useServer } from '../support/servers.js';

const server = useServer();

describe.each([
  ['postgres', startPostgres],
  ['mariadb', startMariaDb],
] as const)('on %s', (dialect, start) => {
  let database: FencedDatabase;
  let running: PrivateServer;
  beforeAll(async () => void (running = await start()));
  afterAll(() => running?.[Symbol.asyncDispose]());
  afterEach(() => database?.[Symbol.asyncDispose]());
  const open = async (library: string, table?: string) =>
    (database = await openDatabase(dialect, library, running.url, table));

  describe.each(LIBRARIES[dialect])('a fence with %s', (library) => {
    beforeEach(() => open(library));

    it('accepts a token again, and refuses each lower one', () =>
      CHECKS['accepts a token again, and refuses each lower one'](database, fence));

    it('rolls the transaction of a refused token back', () =>
      CHECKS['rolls the transaction of a refused token back'](database, fence));

    it('waits for the transaction of an earlier holder, and reads what it wrote', () =>
      CHECKS['waits for the transaction of an earlier holder, and reads what it wrote'](
        database,
        fence,
      ));

    it('refuses the write of a holder that was paused past its session', () =>
      CHECKS['refuses the write of a holder that was paused past its session'](
        database,
        fence,
        server,
      ));

    it('refuses an object that is in no transaction', async () => {
      for (const [what, outside] of Object.entries(database.outside)) {
        await expect(fence(outside, leaseWith(TOKEN)), what).rejects.toThrow(
          /^tx must be in a transaction, but is an object of .* outside of one/,
        );
      }
    });
  });

  const [library] = LIBRARIES[dialect].slice(-1) as [string];

  it.each(['double precision', 'real', 'decimal(30, 1)', 'integer'])(
    'a column that cannot store each token is an error: %s',
    async (type) => {
      const key = dialect === 'postgres' ? 'text' : 'varbinary(300)';
      await open(
        library,
        `CREATE TABLE lock_fences (lock_path ${key} PRIMARY KEY, token ${type} NOT NULL)`,
      );
      const taking = database.transaction((tx) => fence(tx, leaseWith(TOKEN)));
      // The server itself refuses a token that is out of the range of an integer.
      await expect(taking).rejects.toThrow(
        /its column token must be a 64-bit integer|out of range/i,
      );
      await expect(taking).rejects.not.toBeInstanceOf(StaleLeaseError);
      expect(await database.query('SELECT token FROM lock_fences')).toEqual([]);
    },
  );

  it.runIf(dialect === 'postgres')(
    'a fence that has waited under REPEATABLE READ is a serialization error, which a new transaction avoids',
    async () => {
      await open(library);
      const lease = leaseWith(TOKEN);
      const first = new Gate();
      const holder = database.transaction(async (tx) => {
        await fence(tx, lease);
        await first.pass();
      });
      await first.reached;
      const begun = new Gate();
      const late = database.transaction(async (tx) => {
        await database.query('SET TRANSACTION ISOLATION LEVEL REPEATABLE READ', tx);
        await database.query('SELECT 1 FROM lock_fences', tx);
        begun.open();
        await fence(tx, lease);
      });
      await begun.pass();
      first.open();
      await holder;
      await expect(late).rejects.toMatchObject({ code: '40001' });
      await database.transaction((tx) => fence(tx, lease));
    },
  );

  describe('the checks find a fence that', () => {
    beforeEach(() => open(library));
    const stored = async (tx: object, path: string) =>
      (
        await database.query(
          `SELECT CAST(token AS char(30)) AS token FROM lock_fences WHERE lock_path = '${path}' FOR UPDATE`,
          tx,
        )
      )[0]?.token as string | undefined;
    /** A fence in two steps. */
    const comparing =
      (refuses: (token: bigint, stored: string) => boolean): Fence =>
      async (tx, lease) => {
        const { path, fencingToken } = lease;
        const before = await stored(tx, path);
        if (before !== undefined && refuses(fencingToken, before)) throw new StaleLeaseError('');
        await database.query(
          before === undefined
            ? `INSERT INTO lock_fences VALUES ('${path}', ${fencingToken})`
            : `UPDATE lock_fences SET token = ${fencingToken} WHERE lock_path = '${path}'`,
          tx,
        );
      };
    const order = 'accepts a token again, and refuses each lower one';
    const wait = 'waits for the transaction of an earlier holder, and reads what it wrote';

    it('compares the tokens as numbers', async () => {
      const broken = comparing((token, before) => Number(token) < Number(before));
      await expect(CHECKS[order](database, broken)).rejects.toThrow();
    });

    it('compares the tokens as texts', async () => {
      const broken = comparing((token, before) => String(token) < before);
      await expect(CHECKS[order](database, broken)).rejects.toThrow();
    });

    it('refuses the token that is stored', async () => {
      const broken = comparing((token, before) => token <= BigInt(before));
      await expect(CHECKS[order](database, broken)).rejects.toThrow();
    });

    it('accepts the token below the one that is stored', async () => {
      const broken = comparing((token, before) => token < BigInt(before) - 1n);
      await expect(CHECKS[order](database, broken)).rejects.toThrow();
    });

    it('runs outside of the transaction', async () => {
      const broken: Fence = (_, lease) => database.transaction((other) => fence(other, lease));
      await expect(CHECKS[wait](database, broken)).rejects.toThrow('expected 9 to be 8');
    });

    it('runs after a read', async () => {
      const buying = CHECKS[wait](database, fence, async (tx, lease) => {
        const [{ stock } = {}] = await database.query('SELECT stock FROM goods', tx);
        await fence(tx, lease);
        await database.query(`UPDATE goods SET stock = ${Number(stock) - 1}`, tx);
      });
      await expect(buying).rejects.toThrow('expected 9 to be 8');
    });
  });
});
