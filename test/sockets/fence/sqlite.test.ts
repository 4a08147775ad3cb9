import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fence } from 'nestjs-zookeeper/fence';
import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest';
import { CHECKS, leaseWith, TOKEN } from '../../support/fence-checks.js';
import { type FencedDatabase, LIBRARIES, openDatabase } from '../../support/fenced-databases.js';
import { useServer } from '../../support/servers.js';

const server = useServer();
const directory = mkdtempSync(join(tmpdir(), 'fences-'));
afterAll(() => rmSync(directory, { recursive: true }));

describe.each(LIBRARIES.sqlite)('a fence in SQLite with %s', (library) => {
  // The client of libsql opens a new database in memory after each transaction.
  const url = ['Drizzle', 'libsql'].includes(library)
    ? `file:${join(directory, `${library}.sqlite`)}`
    : ':memory:';
  const open = (table?: string) => openDatabase('sqlite', library, url, table);
  let database: FencedDatabase;
  beforeEach(async () => void (database = await open()));
  afterEach(() => database?.[Symbol.asyncDispose]());

  it('accepts a token again, and refuses each lower one', () =>
    CHECKS['accepts a token again, and refuses each lower one'](database, fence));

  it('rolls the transaction of a refused token back', () =>
    CHECKS['rolls the transaction of a refused token back'](database, fence));

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
    expect(await database.query('SELECT token FROM lock_fences')).toEqual([]);
  });

  it.each(['real', 'double precision', 'text'])(
    'works on no column that rounds: %s',
    async (type) => {
      await database[Symbol.asyncDispose]();
      database = await open(`CREATE TABLE lock_fences (lock_path text PRIMARY KEY, token ${type})`);
      const take = (token: bigint) => database.transaction((tx) => fence(tx, leaseWith(token)));
      if (type === 'text') {
        await take(9n);
        await take(10n);
        await expect(take(9n)).rejects.toMatchObject({ code: 'STALE_LEASE' });
      } else {
        await expect(take(TOKEN)).rejects.toThrow(/its column token must be a 64-bit integer$/);
      }
    },
  );
});
