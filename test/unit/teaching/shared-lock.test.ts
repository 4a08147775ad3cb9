import { describe, expect, test } from 'vitest';
import { REVOKE_MESSAGE } from '../../../lib/recipes/internals/node-data.js';
import { EmbeddedZooKeeper } from '../../../lib/embedded/index.js';
import { ZkClient } from '../../../lib/recipes/index.js';
import { SharedLock } from '../../../lib/teaching/index.js';

const PATH = '/lock';

describe('the shared lock on ClickHouse Keeper, which writes its znode for the fencing token', () => {
  const start = () =>
    EmbeddedZooKeeper.start({ server: 'clickhouse-keeper', tickTime: 100, minSessionTimeout: 500 });
  const connect = async (server: EmbeddedZooKeeper): Promise<ZkClient> => {
    const { connectString } = server;
    const client = new ZkClient({ connectString, transport: 'wire', sessionTimeout: 1000 });
    await client.connect();
    return client;
  };

  test('is acquired in the next session if the reply to the write is lost', async () => {
    await using server = await start();
    const client = await connect(server);
    const first = client.sessionId!;
    await server.faults.dropReply({ op: 'setData', session: first });
    const lease = await new SharedLock(client, PATH).write.acquire();
    expect(lease.held).toBe(true);
    expect(client.sessionId).not.toBe(first);
    await lease.release();
    await client.close();
  });

  test('joins the queue again if its revocation was requested before the write', async () => {
    await using server = await start();
    const [holder, waiter, other] = await Promise.all([1, 2, 3].map(() => connect(server)));
    const held = await new SharedLock(holder!, PATH).write.acquire();
    const waiting = new SharedLock(waiter!, PATH).write.acquire();
    const nodes = async () => (await other!.children(PATH)).children;
    await expect.poll(async () => (await nodes()).length).toBe(2);
    const { id } = await waiter!.session();
    for (const name of await nodes()) {
      const path = `${PATH}/${name}`;
      const { stat } = await other!.get(path);
      if (stat.ephemeralOwner === id) await other!.set(path, REVOKE_MESSAGE);
    }
    const revoked = await nodes();
    await held.release();
    const lease = await waiting;
    const [name] = await nodes();
    expect(revoked).not.toContain(name);
    await lease.release();
    await Promise.all([holder, waiter, other].map((client) => client!.close()));
  });
});
