// Sends orders to two consumers, and starts a ZooKeeper server unless ZK_CONNECT_STRING names one.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { Queue, QueueEvents } from 'bullmq';
import { EmbeddedZooKeeper } from 'nestjs-zookeeper/embedded';

const connection = { url: process.env.REDIS_URL ?? 'redis://localhost:6379' };
const queue = new Queue('orders', { connection });
const events = new QueueEvents('orders', { connection });
await events.waitUntilReady();

const ZK_CONNECT_STRING =
  process.env.ZK_CONNECT_STRING ?? (await EmbeddedZooKeeper.start()).connectString;
const consumers = [1, 2].map(() =>
  fork(new URL('main.js', import.meta.url), { env: { ...process.env, ZK_CONNECT_STRING } }),
);
const endEarly = () => {
  console.error('A consumer has ended, so this process ends too.');
  process.exit(1);
};
for (const consumer of consumers) consumer.on('exit', endEarly);
await Promise.all(consumers.map((consumer) => once(consumer, 'message')));

const customers = ['Ann', 'Bob', 'Ann', 'Bob', 'Ann', 'Bob', 'Ann', 'Bob'];
// An order whose customer has another one in work for longer than `wait` is tried again.
const opts = { attempts: 5, backoff: { type: 'exponential', delay: 1_000 } };
const orders = await queue.addBulk(
  customers.map((customer) => ({ name: 'order', data: { customer }, opts })),
);
await Promise.all(orders.map((order) => order.waitUntilFinished(events)));

for (const consumer of consumers) consumer.off('exit', endEarly).kill();
await Promise.all([queue.close(), events.close()]);
