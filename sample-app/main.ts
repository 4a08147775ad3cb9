import { once } from 'node:events';
import { createServer } from 'node:net';
import { parseEnvironment } from './live/environment.js';
import { GOODS, UNLOCKED_GOODS } from './live/sales.js';
import { startLive } from './live/start-live.js';
import { prepareDatabase, temporaryDatabase } from './shop/database.js';
import { defaults, type ShopSettings } from './shop/settings.js';
import { watchCommand } from './watch-command.js';

/** Session timeout in milliseconds: long enough to see on the page that a dead instance keeps the lock. */
const SESSION_TIMEOUT = 6_000;

async function start() {
  const { host, port, zookeeper, database, payWithin } = parseEnvironment(process.env);
  await checkAddress(host, port);
  const settings: ShopSettings = {
    ...{ ...defaults, sessionTimeout: SESSION_TIMEOUT, zookeeper, payWithin },
    database: database ?? temporaryDatabase(),
  };
  await prepareDatabase(settings, [
    { goodsNo: GOODS, stock: 100 },
    { goodsNo: UNLOCKED_GOODS, stock: 100 },
    { goodsNo: 'watch', stock: 5 },
    { goodsNo: 'camera', stock: 20, isActive: false },
  ]).catch((cause: Error) => {
    const { message } = cause instanceof AggregateError ? (cause.errors[0] as Error) : cause;
    throw new Error(`DATABASE cannot be used: ${message}`, { cause });
  });
  return startLive(settings, {
    instances: 3,
    ...{ host, port, logLevels: ['fatal', 'error', 'warn', 'log'] },
  });
}

/** Rejects if the server cannot listen there. It listens only after its instances have started. */
async function checkAddress(host: string, port: number): Promise<void> {
  const server = createServer().listen(port, host);
  await once(server, 'listening').catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EADDRINUSE') throw error;
    throw new Error(`port ${port} is in use: set PORT to another one`, { cause: error });
  });
  server.close();
  await once(server, 'close');
}

const { app, url, zookeeper } = await start().catch(({ message }: Error) => {
  console.error(`The shop did not start: ${message}`);
  process.exit(1);
});
app.enableShutdownHooks([], { useProcessExit: true });

console.log(`
The shop is open at ${url}. Try:

  the same address in a browser: the live page of the flash sale
  curl ${url}/goods-stock/phone
  curl -X POST ${url}/goods-stock/phone/purchase
  curl -X POST ${url}/goods-stock/phone/purchase-unlocked
  curl -X POST ${url}/goods-stock/phone/reset -H 'content-type: application/json' -d '{"stock": 100}'

5 wristwatches are in stock, and the camera is not on sale. An order that is not paid in time is cancelled:

  curl -X POST ${url}/orders/1/pay
  curl ${url}/leader
  curl ${url}/metrics

ZooKeeper listens on ${zookeeper}. The holders and waiters of the locks, in another terminal:

  ${watchCommand(zookeeper)}

The whole flash sale: npm run seckill
`);
