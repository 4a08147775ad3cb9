import { describe, expect, it } from 'vitest';
import { RealZooKeeper } from '../support/real-zookeeper.js';
import { PrivateMariaDb } from './seckill-mariadb.js';
import { seckill } from './seckill-process.js';

const LOAD = ['--buyers', '300', '--items', '30'];
const exactly = { requests: 300, orders: 30, stockLeft: 0, oversold: 0, errors: 0 };

for (const [name, { installed }] of [
  ['a real ZooKeeper', { installed: RealZooKeeper.isInstalled() }],
  ['MariaDB', PrivateMariaDb],
] as const) {
  if (!installed) console.log(`Left out: the seckill on ${name}, which is not installed here.`);
}

describe('the seckill sells exactly the stock', { retry: 0 }, () => {
  it.runIf(RealZooKeeper.isInstalled())('with the lock of a real ZooKeeper', async () => {
    const zookeeper = await RealZooKeeper.start();
    try {
      const { code, result } = await seckill(...LOAD, '--zookeeper', `127.0.0.1:${zookeeper.port}`);
      expect(result.locked).toMatchObject(exactly);
      expect(result.unlocked.oversold).toBeGreaterThan(0);
      expect(code).toBe(0);
    } finally {
      await zookeeper.dispose();
    }
  });

  it.runIf(PrivateMariaDb.installed)(
    'on MariaDB, and a second time on the same tables',
    async () => {
      await using database = await PrivateMariaDb.start();
      for (const _ of ['first', 'second']) {
        const { code, result } = await seckill(...LOAD, '--database', database.url);
        expect(result.locked).toMatchObject(exactly);
        expect(result.unlocked.oversold).toBeGreaterThan(0);
        expect(code).toBe(0);
      }
    },
  );
});
