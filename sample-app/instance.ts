// One process of the seckill. It ends when its channel to the parent process closes.
import { ZkClient } from 'nestjs-zookeeper';
import type { FromInstance, ToInstance } from './seckill/instances.js';
import { probe } from './seckill/probe.js';
import { InstanceReporter } from './seckill/instance-reporter.js';
import type { ShopSettings } from './shop/settings.js';
import { startShop } from './shop/start-shop.js';

const GRACE = 5_000;

// A terminal and a service manager signal the parent and its children. The parent stops the children, or its end does.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => undefined);
process.once('disconnect', () => setTimeout(() => process.exit(1), GRACE).unref());

const send = (message: FromInstance) => {
  // The parent may be gone before this process has noticed it: the message fails, and the instance ends quietly.
  if (process.connected) process.send!(message, () => undefined);
};
// Before the shop starts, so that its first connection is reported.
const reporter = process.env.SHOP_REPORTS
  ? new InstanceReporter((report) => send({ report }))
  : undefined;

try {
  const settings = JSON.parse(process.env.SHOP_SETTINGS!) as ShopSettings;
  const { app, url } = await startShop(settings, {
    port: 0,
    logLevels: ['fatal', 'error', 'warn'],
  });
  const closing = new AbortController();
  const close = () => {
    closing.abort();
    // A purchase that is interrupted now fails; no buyer waits for its answer.
    app.useLogger(false);
    void app.close().finally(() => process.exit());
  };
  if (!process.connected) close();
  process.once('disconnect', close);
  process.on('message', (message: ToInstance) => Object.assign(settings, message));
  send({ url });
  if (reporter) {
    void probe(app.get(ZkClient), (sentAt) => reporter.confirm(sentAt), closing.signal);
  }
} catch (error) {
  const failure = error instanceof Error ? error.message : String(error);
  process.send?.({ failure } satisfies FromInstance, () => process.exit(1));
}
