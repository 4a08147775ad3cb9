import {
  BadOptionError,
  LeaderLatch,
  MultiLock,
  Mutex,
  ReadWriteLock,
  Semaphore,
  ZkClient,
} from 'nestjs-zookeeper/recipes';
import { SingleNodeLock } from 'nestjs-zookeeper/teaching';
import { expect, it } from 'vitest';

// The client is not connected: the options are checked before anything else.
const client = new ZkClient({ connectString: '127.0.0.1:1', transport: 'wire' });
const mutex = new Mutex(client, '/mutex');
const semaphore = new Semaphore(client, '/semaphore', { permits: 2 });
const run = async () => {};

it.each<[string, (options: object) => Promise<unknown>]>([
  ['withLock()', (options) => mutex.withLock(run, options)],
  ['acquire()', (options) => mutex.acquire(options)],
  ['tryAcquire()', (options) => mutex.tryAcquire(options)],
  ['enter()', (options) => mutex.enter(options)],
  ['a read lock', (options) => new ReadWriteLock(client, '/pages').read.acquire(options)],
  ['a semaphore', (options) => semaphore.acquire(options)],
  ['acquireEach()', (options) => semaphore.acquireEach(options)],
  ['a multi-lock', (options) => new MultiLock([mutex]).acquire(options)],
  ['a latch', (options) => new LeaderLatch(client, '/latch').await(options)],
  ['a lock for teaching', (options) => new SingleNodeLock(client, '/single').acquire(options)],
])('%s refuses an unknown option by its name', async (_name, acquire) => {
  const refused = acquire({ wiat: 1 });
  await expect(refused).rejects.toThrow(BadOptionError);
  await expect(refused).rejects.toThrow(/unknown option wiat in options: did you mean wait/);
});

it('refuses an option of another recipe', async () => {
  const options: object = { count: 2 };
  await expect(mutex.acquire(options)).rejects.toThrow(/unknown option count in options/);
  await expect(semaphore.acquire(options)).rejects.toThrow('connect() has not succeeded yet');
});
