import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { EmbeddedZooKeeper } from 'nestjs-zookeeper/embedded';
import { LeaseLostError, Mutex, ZkClient } from 'nestjs-zookeeper/recipes';
import { aborted } from '../../support/clients.js';
import { nodesUnder } from '../../support/recipe-nodes.js';
import { recordStates } from '../../support/sessions.js';

const PATH = '/lock';

describe('Under a fault of the embedded server, a lock', () => {
  let server: EmbeddedZooKeeper;
  let clients: ZkClient[];

  const connect = async (sessionTimeout = 3000) => {
    const client = new ZkClient({ connectString: server.connectString, sessionTimeout });
    clients.push(client);
    await client.connect();
    return client;
  };
  const sessionOf = async (client: ZkClient) => (await client.session()).id;

  beforeEach(async () => {
    server = await EmbeddedZooKeeper.start();
    clients = [];
  });
  afterEach(async () => {
    for (const client of clients) await client.close();
    await server.stop();
  });

  test('adopts its node if the reply to the create was lost', async () => {
    const client = await connect();
    const mutex = new Mutex(client, PATH);
    await (await mutex.acquire()).release();
    const log = recordStates(client);
    await server.faults.dropReply({ op: 'create', session: await sessionOf(client) });
    const lease = await mutex.acquire();
    expect(log.states).toContain('SUSPENDED');
    expect(await nodesUnder(client, PATH)).toHaveLength(1);
    await lease.release();
    expect(await nodesUnder(client, PATH)).toEqual([]);
  });

  test('is free after a release whose reply was lost', async () => {
    const [client, other] = [await connect(), await connect()];
    const lease = await new Mutex(client, PATH).acquire();
    const log = recordStates(client);
    await server.faults.dropReply({ op: 'delete' });
    await lease.release();
    await expect.poll(() => log.states).toContain('SUSPENDED');
    await (await new Mutex(other, PATH).acquire({ wait: 10_000 })).release();
  });

  test("is lost with its session when the server's clock is advanced", async () => {
    const client = await connect();
    const lease = await new Mutex(client, PATH).acquire();
    await server.skipClock(60_000);
    expect(await aborted(lease.signal)).toBeInstanceOf(LeaseLostError);
    await (await new Mutex(client, PATH).acquire()).release();
  });

  test('goes to another client while its holder is cut off, and the holder has noticed before', async () => {
    const [holder, other] = [await connect(1500), await connect()];
    const lease = await new Mutex(holder, PATH).acquire();
    const restore = await server.faults.cut('both', { session: await sessionOf(holder) });
    const next = await new Mutex(other, PATH).acquire({ wait: 15_000 });
    expect(lease.signal.aborted).toBe(true);
    await next.release();
    await restore();
    await (await new Mutex(holder, PATH).acquire({ wait: 15_000 })).release();
  });
});
