import { prepareDatabase, temporaryDatabase } from './shop/database.js';
import { defaults, type ShopSettings } from './shop/settings.js';
import { startShop } from './shop/start-shop.js';

const { PORT = '3000', ZOOKEEPER, DATABASE, PAY_WITHIN } = process.env;

const settings: ShopSettings = {
  ...defaults,
  zookeeper: ZOOKEEPER,
  database: DATABASE ?? temporaryDatabase(),
  ...(PAY_WITHIN && { payWithin: Number(PAY_WITHIN) * 1000 }),
};

await prepareDatabase(settings, [
  { goodsNo: 'phone', stock: 100 },
  { goodsNo: 'watch', stock: 5 },
  { goodsNo: 'camera', stock: 20, isActive: false },
]);
const { app, url } = await startShop(settings, {
  port: Number(PORT),
  logLevels: ['fatal', 'error', 'warn', 'log'],
});
app.enableShutdownHooks([], { useProcessExit: true });

console.log(`
The shop is open at ${url}. Try:

  curl ${url}/goods-stock/phone
  curl -X POST ${url}/goods-stock/phone/purchase
  curl -X POST ${url}/goods-stock/phone/purchase-unlocked
  curl -X POST ${url}/goods-stock/phone/reset -H 'content-type: application/json' -d '{"stock": 100}'

Of the watch there are 5, the camera is not on sale. Who does not pay in time loses the order:

  curl -X POST ${url}/orders/1/pay
  curl ${url}/leader
  curl ${url}/metrics

The whole flash sale: npm run seckill
`);
