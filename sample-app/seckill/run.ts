import { randomBytes } from 'node:crypto';
import { EmbeddedZooKeeper } from 'nestjs-zookeeper/embedded';
import { prepareDatabase, removeGoods, temporaryDatabase } from '../shop/database.js';
import { PURCHASE_WAIT } from '../shop/goods-stock.controller.js';
import { defaults, type ShopSettings } from '../shop/settings.js';
import { watchCommand } from '../watch-command.js';
import { Instances } from './instances.js';
import { sendBuyers } from './load.js';
import type { SeckillOptions } from './options.js';
import type { Progress } from './progress.js';
import { type RunResult, runResult, type SeckillResult } from './result.js';

/** Runs the flash sale: starts the servers, sells the stock twice, without and with a lock, and cleans up. */
export async function seckill(
  options: SeckillOptions,
  progress: Progress,
  signal: AbortSignal,
): Promise<SeckillResult> {
  await using embedded = options.zookeeper ? undefined : await EmbeddedZooKeeper.start();
  const settings: ShopSettings = {
    ...defaults,
    delay: options.delay,
    zookeeper: options.zookeeper ?? embedded?.connectString,
    database: options.database ?? temporaryDatabase(),
  };

  // New goods for each run: fencing tokens of another ZooKeeper may be lower than an earlier run's.
  const goodsNo = `seckill-${randomBytes(4).toString('hex')}`;
  await prepareDatabase(settings, [{ goodsNo, stock: options.items }]);
  await using _goods = { [Symbol.asyncDispose]: () => removeGoods(settings, goodsNo) };

  await using instances = await Instances.start(options.instances, settings, { signal });
  if (embedded) progress.line(`to show the locks: ${watchCommand(embedded.connectString)}`);
  for (const [index, instance] of instances.all.entries()) {
    progress.line(`instance ${index + 1}: ${instance.url}, pid ${instance.pid}`);
    instance.onDeath((how) =>
      progress.line(
        `instance ${index + 1} died (${how}): its buyers get no answer, the others continue`,
      ),
    );
  }

  const { items, buyers } = options;
  const sale = { instances, goodsNo, items, buyers, progress, signal };
  return {
    unlocked: await sell('unlocked', { ...sale, route: 'purchase-unlocked' }),
    locked: await sell('locked', { ...sale, route: 'purchase' }),
  };
}

interface Sale {
  instances: Instances;
  goodsNo: string;
  route: string;
  items: number;
  buyers: number;
  progress: Progress;
  signal: AbortSignal;
}

async function sell(name: keyof SeckillResult, sale: Sale): Promise<RunResult> {
  const { instances, goodsNo, route, items, buyers, progress, signal } = sale;
  await request(instances, `${goodsNo}/reset`, { signal, body: { stock: items } });
  let message = `${name}: no answers`;
  const load = await sendBuyers({
    urls: instances.alive.map(({ url }) => `${url}/goods-stock/${goodsNo}/${route}`),
    buyers,
    patience: PURCHASE_WAIT + 10_000,
    signal,
    onProgress: ({ sold, soldOut, refused }) => {
      message = `${name}: ${sold} sold, ${soldOut} sold out, ${refused} refused`;
      progress.update(message);
    },
  });
  progress.line(message);
  const { orders, stock } = await request(instances, goodsNo, { signal });
  return runResult(load, { orders, stock, items });
}

/** Sends a request to the first instance that is alive. */
async function request(
  { alive: [shop] }: Instances,
  path: string,
  { signal, body }: { signal: AbortSignal; body?: object },
): Promise<{ orders: number; stock: number }> {
  if (!shop) throw new Error('no instance is left');
  const answer = await fetch(`${shop.url}/goods-stock/${path}`, {
    method: body ? 'POST' : 'GET',
    headers: { 'content-type': 'application/json' },
    body: body && JSON.stringify(body),
    signal,
  });
  if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
  return (await answer.json()) as { orders: number; stock: number };
}
