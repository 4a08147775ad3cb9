// One process of the seckill. It ends when its channel to the parent process closes.
import { ZkClient } from 'nestjs-zookeeper';
import type { FromInstance, ToInstance } from './seckill/instances.js';
import type { ShopSettings } from './shop/settings.js';
import { startShop } from './shop/start-shop.js';

const GRACE = 5_000;

// A terminal sends Ctrl-C to the parent and its children; the parent stops the children.
process.on('SIGINT', () => undefined);
process.once('disconnect', () => setTimeout(() => process.exit(1), GRACE).unref());

try {
  const settings = JSON.parse(process.env.SHOP_SETTINGS!) as ShopSettings;
  const { app, url } = await startShop(settings, {
    port: 0,
    logLevels: ['fatal', 'error', 'warn'],
  });
  const close = () => {
    // A purchase that is interrupted now fails; no buyer waits for its answer.
    app.useLogger(false);
    void app.close().finally(() => process.exit());
  };
  if (!process.connected) close();
  process.once('disconnect', close);
  const client = app.get(ZkClient);
  const tellConnection = () => {
    const { state, sessionId: session } = client;
    if (process.connected) {
      process.send!({ connection: { state, session } } satisfies FromInstance);
    }
  };
  process.on('message', (told: ToInstance) => Object.assign(settings, told));
  process.send?.({ url } satisfies FromInstance);
  tellConnection();
  client.onState(tellConnection);
} catch (error) {
  const failure = error instanceof Error ? error.message : String(error);
  process.send?.({ failure } satisfies FromInstance, () => process.exit(1));
}
