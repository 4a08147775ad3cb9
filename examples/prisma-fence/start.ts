// Starts a second process, paused.ts, and a ZooKeeper server unless ZK_CONNECT_STRING names one.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { NestFactory } from '@nestjs/core';
import { EmbeddedZooKeeper } from 'nestjs-zookeeper/embedded';
import { fenceTable } from 'nestjs-zookeeper/fence';
import { openDatabase, Shop, ShopModule } from './shop.js';

const folder = mkdtempSync(join(tmpdir(), 'prisma-fence-'));
process.on('exit', () => rmSync(folder, { recursive: true }));
process.on('SIGINT', () => process.exit(130)).on('SIGTERM', () => process.exit(143));
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
const ended = once(other, 'exit');
await Promise.race([once(other, 'message'), ended]);
if (!other.connected) throw new Error('paused.js has ended early');
console.log(`process ${other.pid} has the lock and is paused before its first statement`);
const left = await app.get(Shop).sell('phone');
console.log(`process ${process.pid} has sold a phone, ${left} are left`);
other.stdin!.end();
await ended;

await app.close();
await prisma.$disconnect();
