import assert from 'node:assert/strict';
import { setTimeout as delay } from 'node:timers/promises';
import type { ZkClient } from 'nestjs-zookeeper';
import { DistributedQueue, JSON_SERIALIZER } from 'nestjs-zookeeper/coordination';
import {
  currentLease,
  LeaderLatch,
  type Lock,
  Mutex,
  ReadWriteLock,
  Semaphore,
} from 'nestjs-zookeeper/recipes';
import { TestZooKeeper } from 'nestjs-zookeeper/testing';
import { type Check, until } from '../support/instances.js';

const CALLERS = 8;

/** Recipes without Nest, whatever the platform, with the server in a thread and in this one. */
export const check: Check = async () => {
  for (const start of [TestZooKeeper.embedded, TestZooKeeper.inProcess]) {
    const zookeeper = await start();
    const clients = await Promise.all([zookeeper.client(), zookeeper.client()]);
    try {
      await checkLocks(clients);
      await checkQueue(clients);
      await checkElection(clients);
      await checkLostLease(zookeeper, clients);
    } finally {
      await Promise.all(clients.map((client) => client.close()));
      await zookeeper.stop();
    }
  }
};

async function checkLocks(clients: ZkClient[]) {
  assert.equal(await most(clients.map((client) => new Mutex(client, '/mutex'))), 1);
  const semaphores = clients.map((client) => new Semaphore(client, '/permits', { permits: 3 }));
  assert.equal(await most(semaphores), 3);
  const pairs = clients.map((client) => new ReadWriteLock(client, '/pair'));
  assert.equal(await most(pairs.map((pair) => pair.write)), 1);
  assert.equal(await most(pairs.map((pair) => pair.read)), CALLERS);
}

/** The maximum number of callers that hold the lock at the same time. */
async function most(locks: Lock[]): Promise<number> {
  let holding = 0;
  let maximum = 0;
  const calls = Array.from({ length: CALLERS }, (_, index) =>
    locks[index % locks.length].withLock(async (lease) => {
      maximum = Math.max(maximum, ++holding);
      await delay(50);
      assert.equal(currentLease(), lease);
      holding--;
    }),
  );
  await Promise.all(calls);
  return maximum;
}

async function checkQueue(clients: ZkClient[]) {
  const [producer, consumer] = clients.map(
    (client) => new DistributedQueue(client, '/queue', { serializer: JSON_SERIALIZER }),
  );
  const consumed: unknown[] = [];
  consumer.consume(async (item) => void consumed.push(item));
  for (const item of [1, 2, 3]) await producer.put(item);
  await until(() => consumed.length === 3);
  assert.deepEqual(consumed, [1, 2, 3]);
  await Promise.all([producer.close(), consumer.close()]);
}

async function checkElection(clients: ZkClient[]) {
  const [first, second] = clients.map((client) => new LeaderLatch(client, '/election'));
  await first.start();
  await first.await();
  await second.start();
  assert.equal(second.hasLeadership, false);
  await first.close();
  await second.await();
  await second.close();
}

async function checkLostLease(zookeeper: TestZooKeeper, [client, other]: ZkClient[]) {
  const lease = await new Mutex(client, '/lost').acquire();
  await zookeeper.expireSession(client);
  assert.equal(lease.signal.aborted, true);
  await new Mutex(other, '/lost').withLock(async () => {});
}
