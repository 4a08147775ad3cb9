import { expect, it } from 'vitest';
import { LeaderLatch } from 'nestjs-zookeeper/recipes';
import { useClients } from '../../support/clients.js';
import { nodesUnder } from '../../support/recipe-nodes.js';
import { useServer } from '../../support/servers.js';

const server = useServer();
const connect = useClients(server);

it('close() of a latch that never led resolves with the reply to the delete', async () => {
  const path = server.path('election');
  const leader = new LeaderLatch(await connect(), path);
  leader.start();
  await leader.await();
  const client = await connect();
  const waiting = new LeaderLatch(client, path);
  waiting.start();
  await expect.poll(() => nodesUnder(client, path)).toHaveLength(2);

  const session = await client.session();
  const discard = session.guaranteedDelete.bind(session);
  const order: string[] = [];
  session.guaranteedDelete = async (node) => {
    await discard(node);
    order.push('gone');
  };
  await waiting.close();
  order.push('closed');
  expect(order).toEqual(['gone', 'closed']);
  await leader.close();
});
