import { afterEach, describe, expect, test } from 'vitest';
import { EmbeddedZooKeeper, type EmbeddedZooKeeperOptions } from 'nestjs-zookeeper/embedded';
import { CreateRequest, DeleteRequest, OpCode } from '../../../lib/protocol/index.js';
import { RawClient } from '../../support/raw-client.js';
import { create, exists, OPEN } from '../../support/raw-requests.js';

const NO_NODE = -101;

describe('The embedded server removes containers', () => {
  let server: EmbeddedZooKeeper;
  afterEach(() => server.stop());

  const connectWithContainers = async (options: EmbeddedZooKeeperOptions) => {
    server = await EmbeddedZooKeeper.start(options);
    const client = await RawClient.connect({ port: server.port });
    for (const path of ['/unused', '/used', '/emptied']) {
      const request = { path, data: null, acl: OPEN, flags: 4 };
      await client.request(OpCode.createContainer, CreateRequest, request);
    }
    await create(client, '/used/child');
    await create(client, '/emptied/child');
    await client.request(OpCode.delete, DeleteRequest, { path: '/emptied/child', version: -1 });
    return client;
  };
  const left = async (client: RawClient) => {
    const replies = await Promise.all(
      ['/unused', '/used', '/emptied'].map((path) => exists(client, path)),
    );
    return replies.map(({ err }) => err);
  };

  test('that were emptied, at the next check', async () => {
    const client = await connectWithContainers({ containerCheckInterval: 50 });
    await expect.poll(() => left(client)).toEqual([0, 0, NO_NODE]);
  });

  test('once a minute by default, whatever the tick, or when its clock is advanced', async () => {
    const client = await connectWithContainers({ tickTime: 10, minSessionTimeout: 200 });
    // Ten ticks or more pass before this session expires.
    const silent = await RawClient.connect({ port: server.port, timeout: 200 });
    await silent.closed;
    expect(await left(client)).toEqual([0, 0, 0]);
    await server.skipClock(1);
    expect(await left(client)).toEqual([0, 0, NO_NODE]);
  });
});
