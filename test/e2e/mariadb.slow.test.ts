import { afterAll, beforeAll, describe, it } from 'vitest';
import { PrivateMariaDb } from '../../scripts/databases/mariadb.js';
import { expectExactSale } from './seckill-process.js';

describe('in MariaDB', () => {
  let server: PrivateMariaDb;
  beforeAll(async () => void (server = await PrivateMariaDb.start()));
  afterAll(() => server?.[Symbol.asyncDispose]());

  it('the seckill sells exactly the stock, and a second time on the same tables', async () => {
    for (const _ of ['first', 'second']) await expectExactSale('--database', server.url);
  });
});
