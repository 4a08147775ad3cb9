// Starts a second process, paused.ts, and a ZooKeeper server unless ZK_CONNECT_STRING names one.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { NestFactory } from '@nestjs/core';
import { EmbeddedZooKeeper } from 'nestjs-zookeeper/embedded';
import { fenceTable } from 'nestjs-zookeeper/fence';
import { openDatabase, Shop, ShopModule } from './shop.js';

const folder = await mkdtemp(join(tmpdir(), 'prisma-fence-'));
process.env.DATABASE = join(folder, 'shop.sqlite');
process.env.ZK_CONNECT_STRING ??= (await EmbeddedZooKeeper.start()).connectString;

const prisma = openDatabase();
// In an application these statements are a migration.
await prisma.$executeRawUnsafe('CREATE TABLE goods (id text PRIMARY KEY, stock integer NOT NULL)');
await prisma.$executeRawUnsafe(fenceTable('sqlite'));
await prisma.goods.create({ data: { id: 'phone', stock: 10 } });
const app = await NestFactory.createApplicationContext(ShopModule.with(prisma), {
  logger: ['error', 'warn'],
});

const other = fork(new URL('paused.js', import.meta.url), {
  stdio: ['pipe', 'inherit', 'inherit', 'ipc'],
});
await once(other, 'message');
console.log(`process ${other.pid} has the lock and is paused before its first statement`);
const left = await app.get(Shop).sell('phone');
console.log(`process ${process.pid} has sold a phone, ${left} are left`);
other.stdin!.end();
await once(other, 'exit');

await app.close();
await prisma.$disconnect();
await rm(folder, { recursive: true });
