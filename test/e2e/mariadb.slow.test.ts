import { afterAll, beforeAll, describe, it } from 'vitest';
import { startMariaDb } from '../../scripts/databases/mariadb.js';
import type { PrivateServer } from '../../scripts/databases/private-server.js';
import { expectExactSale } from './seckill-process.js';

describe('in MariaDB', () => {
  let server: PrivateServer;
  beforeAll(async () => void (server = await startMariaDb()));
  afterAll(() => server?.[Symbol.asyncDispose]());

  it('the seckill sells exactly the stock, and a second time on the same tables', async () => {
    for (const _ of ['first', 'second']) await expectExactSale('--database', server.url);
  });
});
