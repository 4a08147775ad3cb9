import { fileURLToPath } from 'node:url';
import type { ServerResponse } from 'node:http';
import { NestFactory } from '@nestjs/core';
import type { NestExpressApplication } from '@nestjs/platform-express';
import { ZkClient } from 'nestjs-zookeeper';
import { EmbeddedZooKeeper } from 'nestjs-zookeeper/embedded';
import type { ListenOptions } from '../shop/start-shop.js';
import type { ShopSettings } from '../shop/settings.js';
import { LiveModule } from './live.module.js';
import { NetworkLink } from './network-link.js';

const PAGE = fileURLToPath(new URL('../../dist-page', import.meta.url));

/** Allows no content from other origins, and no embedding in frames (clickjacking). */
const POLICY = "default-src 'self'; frame-ancestors 'none'";

/** Starts several instances of the shop, each in its own process, and the page in front of them. */
export async function startLive(
  settings: ShopSettings,
  { instances, host, port, logLevels }: ListenOptions & { instances: number; host: string },
): Promise<{ app: NestExpressApplication; url: string; zookeeper: string }> {
  // The server's thread ends with this process.
  const server = settings.zookeeper ? undefined : await EmbeddedZooKeeper.start();
  const zookeeper = settings.zookeeper ?? server!.connectString;
  if (!server) await checkZookeeper(zookeeper);
  const link = await NetworkLink.to(zookeeper);
  const module = LiveModule.forRoot({
    ...{ instances, server, link },
    settings: { ...settings, zookeeper },
  });
  const app = await NestFactory.create<NestExpressApplication>(module, {
    logger: logLevels,
    abortOnError: false,
    // Open event streams would delay the shutdown.
    forceCloseConnections: true,
  });
  const setHeaders = (response: ServerResponse) =>
    response.setHeader('Content-Security-Policy', POLICY);
  app.useStaticAssets(PAGE, { setHeaders });
  await app.listen(port, host);
  return { app, url: (await app.getUrl()).replace('[::1]', 'localhost'), zookeeper };
}

/** Rejects with the failure of each server if none can be used. Each instance would report the address of its proxy. */
async function checkZookeeper(connectString: string): Promise<void> {
  const client = new ZkClient({ connectString });
  try {
    await client.connect();
  } finally {
    await client.close();
  }
}
