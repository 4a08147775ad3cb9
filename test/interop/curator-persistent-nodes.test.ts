import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import {
  PersistentNode,
  PersistentTtlNode,
  type ZkClient,
} from 'nestjs-zookeeper/coordination/recipes';
import { useClients } from '../support/clients.js';
import { useServer } from '../support/servers.js';
import { Curator } from './curator.js';

/** Milliseconds. */
const TTL = 1000;

const missing = Curator.missing();
if (missing) console.log(`Left out: the interop tests with Apache Curator (${missing}).`);

describe.skipIf(missing)('beside Apache Curator', () => {
  const server = useServer();
  const connect = useClients(server);
  let curator: Curator;
  let client: ZkClient;
  let path: string;

  beforeAll(async () => {
    curator = await Curator.start(server.connectString);
  });
  beforeEach(async () => {
    client = await connect();
    path = `${server.path('nodes')}/a`;
  });
  afterAll(async () => {
    await curator?.[Symbol.asyncDispose]();
  });

  const data = async () => (await client.get(path)).data.toString();
  const touches = async () => (await client.exists(`${path}/touch`))?.version ?? -1;

  it.each(['EPHEMERAL', 'PERSISTENT', 'CONTAINER'] as const)(
    'a PersistentNode of mode %s creates again what the other side deletes',
    async (mode) => {
      const keep = () => {
        const lowerCase = mode.toLowerCase() as Lowercase<typeof mode>;
        return new PersistentNode(client, path, { mode: lowerCase, data: 'node' });
      };
      const first = keep();
      first.start();
      await first.waitForInitialCreate();
      await curator.keepNode(path, mode, 'java');
      const created = (await client.exists(path))!.czxid;
      await first.close();
      // Curator creates the znode that we have deleted.
      await expect.poll(async () => (await client.exists(path))?.czxid).toBeGreaterThan(created);
      expect(await data()).toBe('java');
      const second = keep();
      second.start();
      await second.waitForInitialCreate();
      expect(await data()).toBe('node');
      const taken = (await client.exists(path))!;
      expect(taken.ephemeralOwner === client.sessionId).toBe(false);
      // Curator's close deletes the znode, and this side creates it.
      await curator.closeNode(path);
      await expect
        .poll(async () => (await client.exists(path))?.czxid)
        .toBeGreaterThan(taken.czxid);
      expect(await data()).toBe('node');
      await second.close();
      expect(await client.exists(path)).toBeUndefined();
    },
  );

  it.each(['Curator', 'this library'])(
    'a PersistentTtlNode of %s keeps the container of both, and the server deletes it after both have ended',
    async (last) => {
      const ours = new PersistentTtlNode(client, path, { ttl: TTL, data: 'x' });
      const [start, close] = [
        [
          async () => {
            ours.start();
            await ours.waitForInitialCreate();
          },
          () => curator.keepTtlNode(path, TTL, 'x'),
        ],
        [() => ours.close(), () => curator.closeNode(path)],
      ];
      const [one, other] = last === 'Curator' ? [0, 1] : [1, 0];
      await start[one]!();
      await start[other]!();
      await expect.poll(touches).toBeGreaterThan(1);
      const created = (await client.exists(`${path}/touch`))!;
      await close[one]!();
      // More than one TTL, as each side writes the child twice in a TTL.
      const before = await touches();
      await expect.poll(touches, { timeout: 10 * TTL }).toBeGreaterThan(before + 4);
      expect((await client.exists(`${path}/touch`))!.czxid).toBe(created.czxid);
      await close[other]!();
      await expect.poll(() => client.exists(path), { timeout: 30 * TTL }).toBeUndefined();
    },
  );
});
