// Handles the first item of a queue for ever. Prints a line when it begins. A test kills it.
import { DistributedQueue } from 'nestjs-zookeeper/coordination';
import { ZkClient } from 'nestjs-zookeeper/recipes';

const [connectString, path, sessionTimeout] = process.argv.slice(2);
const client = new ZkClient({ connectString, sessionTimeout: Number(sessionTimeout) });
await client.connect();
new DistributedQueue(client, path).consume(async () => {
  console.log('handling');
  await new Promise(() => {});
});
