import { GOODS, UNLOCKED_GOODS } from './live/sales.js';
import { startLive } from './live/start-live.js';
import { prepareDatabase, temporaryDatabase } from './shop/database.js';
import { defaults, type ShopSettings } from './shop/settings.js';

const { PORT = '3000', HOST = '127.0.0.1', ZOOKEEPER, DATABASE, PAY_WITHIN } = process.env;

/** Session timeout in milliseconds: long enough to see on the page that a dead instance keeps the lock. */
const SESSION_TIMEOUT = 6_000;

const settings: ShopSettings = {
  ...defaults,
  sessionTimeout: SESSION_TIMEOUT,
  zookeeper: ZOOKEEPER,
  database: DATABASE ?? temporaryDatabase(),
  ...(PAY_WITHIN && { payWithin: Number(PAY_WITHIN) * 1000 }),
};

await prepareDatabase(settings, [
  { goodsNo: GOODS, stock: 100 },
  { goodsNo: UNLOCKED_GOODS, stock: 100 },
  { goodsNo: 'watch', stock: 5 },
  { goodsNo: 'camera', stock: 20, isActive: false },
]);
const { app, url } = await startLive(settings, {
  instances: 3,
  host: HOST,
  port: Number(PORT),
  logLevels: ['fatal', 'error', 'warn', 'log'],
});
app.enableShutdownHooks([], { useProcessExit: true });

console.log(`
The shop is open at ${url}. Try:

  the same address in a browser: the live page of the flash sale
  curl ${url}/goods-stock/phone
  curl -X POST ${url}/goods-stock/phone/purchase
  curl -X POST ${url}/goods-stock/phone/purchase-unlocked
  curl -X POST ${url}/goods-stock/phone/reset -H 'content-type: application/json' -d '{"stock": 100}'

There are 5 watches, and the camera is not on sale. An order that is not paid in time is cancelled:

  curl -X POST ${url}/orders/1/pay
  curl ${url}/leader
  curl ${url}/metrics

The whole flash sale: npm run seckill
`);
