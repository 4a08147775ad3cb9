import { once } from 'node:events';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { INestApplication, LogLevel } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { ShopModule } from './shop.module.js';
import type { ShopSettings } from './settings.js';

export interface ListenOptions {
  /** 0 lets the operating system choose. */
  port: number;
  logLevels: LogLevel[];
}

export async function startShop(
  settings: ShopSettings,
  { port, logLevels }: ListenOptions,
): Promise<{ app: INestApplication; url: string }> {
  const app = await NestFactory.create<INestApplication<Server>>(ShopModule.forRoot(settings), {
    logger: logLevels,
    abortOnError: false,
  });
  await app.init();
  const server = app.getHttpServer();
  // All buyers connect at the same time. app.listen() has no backlog option, and the default of 511 is too low.
  await once(server.listen({ host: '127.0.0.1', port, backlog: 4096 }), 'listening');
  return { app, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
}
