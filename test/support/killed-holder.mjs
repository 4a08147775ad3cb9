// Acquires or requests a lock, or leads an election, then prints its session id and waits to be killed.
import { LeaderLatch, Mutex, Semaphore, ZkClient } from 'nestjs-zookeeper/recipes';

const { path, recipe = 'mutex', ...options } = JSON.parse(process.argv[2]);
const client = new ZkClient(options);
await client.connect();
if (recipe === 'latch') {
  const latch = new LeaderLatch(client, path);
  latch.start();
  await latch.await();
} else if (recipe === 'semaphore') {
  await new Semaphore(client, path, { permits: 2 }).acquire({ count: 2 });
} else if (recipe === 'waiter') {
  void new Mutex(client, path).acquire();
  while ((await client.children(path)).children.length < 2);
} else {
  await new Mutex(client, path).acquire();
}
// The znode that admitted a request for permits is deleted by then.
await client.sync(path);
process.stdout.write(String(client.sessionId));
