// The process that is paused while it holds the lock.
import { readSync } from 'node:fs';
import { NestFactory } from '@nestjs/core';
import type { PrismaClient } from './generated/client.js';
import { openDatabase, Shop, ShopModule } from './shop.js';

const prisma = openDatabase().$extends({
  query: {
    $executeRawUnsafe({ args, query }) {
      // The worst moment: fence() has checked the lease, and its statement is not sent yet.
      process.send!('paused');
      // Blocks this process, as a long garbage collection does, until start.ts closes the pipe.
      readSync(0, Buffer.alloc(1));
      return query(args);
    },
  },
}) as unknown as PrismaClient;
const app = await NestFactory.createApplicationContext(ShopModule.with(prisma), {
  logger: ['error', 'warn'],
});
await app
  .get(Shop)
  .sell('phone')
  .catch((error) => console.log(`process ${process.pid} continues and is refused: ${error}`));
await app.close();
await prisma.$disconnect();
if (process.connected) process.disconnect();
