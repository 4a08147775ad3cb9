import { afterAll, describe, expect, it } from 'vitest';
import { expectOrder, Goods, takeFence, TOKEN, useDatabase } from './fencing-sql.js';
import { PrivateMariaDb } from '../support/mariadb.js';
import { expectExactSale } from './seckill-process.js';

describe('in MariaDB', () => {
  let server: PrivateMariaDb;
  // Registered before the hook that closes the connections, so that it runs after that hook.
  afterAll(() => server?.[Symbol.asyncDispose]());
  const database = useDatabase(async () => {
    server = await PrivateMariaDb.start();
    return { type: 'mariadb', url: server.url };
  });

  it('a fence accepts a token again, and rejects a lower one', () => expectOrder(database()));

  it('a fence waits for the transaction of an earlier holder, and reads what it wrote', async () => {
    const late = database().createQueryRunner();
    const next = database().createQueryRunner();
    await late.startTransaction();
    await next.startTransaction();
    await takeFence(late.manager, 'gold', TOKEN);
    await late.manager.update(Goods, { id: 'gold' }, { stock: 9 });

    let taken = false;
    const taking = takeFence(next.manager, 'gold', TOKEN + 1n).then(() => (taken = true));
    await expect
      .poll(() => database().query('SHOW PROCESSLIST'))
      .toContainEqual(expect.objectContaining({ Info: expect.stringMatching(/^UPDATE/) }));
    expect(taken).toBe(false);
    await late.commitTransaction();
    await taking;

    expect(await next.manager.findOneBy(Goods, { id: 'gold' })).toMatchObject({ stock: 9 });
    await next.commitTransaction();
    await Promise.all([late.release(), next.release()]);
  });

  it('the seckill sells exactly the stock, and a second time on the same tables', async () => {
    for (const _ of ['first', 'second']) await expectExactSale('--database', server.url);
  });
});
