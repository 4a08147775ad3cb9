// The process that is paused while it holds the lock.
import { readSync } from 'node:fs';
import { NestFactory } from '@nestjs/core';
import { DataSource } from 'typeorm';
import { Shop, ShopModule } from './shop.js';

const app = await NestFactory.createApplicationContext(ShopModule, { logger: ['error', 'warn'] });
let paused = false;
app.get(DataSource).subscribers.push({
  beforeQuery({ query }) {
    if (paused || !query.includes('lock_fences')) return;
    // The worst moment: fence() has checked the lease, and its statement is not sent yet.
    paused = true;
    process.send!('paused');
    // Blocks this process, as a long garbage collection does, until start.ts closes the pipe.
    readSync(0, Buffer.alloc(1));
  },
});
await app
  .get(Shop)
  .sell('phone')
  .catch((error) => console.log(`process ${process.pid} continues and is refused: ${error}`));
await app.close();
if (process.connected) process.disconnect();
