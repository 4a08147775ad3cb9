import { expect, test } from 'vitest';
import { EmbeddedZooKeeper } from 'nestjs-zookeeper/embedded';
import {
  CreateFlag,
  GetChildrenResponse,
  OpCode,
  ReadRequest,
} from '../../../lib/protocol/index.js';
import { RawClient } from '../../support/raw-client.js';
import { create } from '../../support/raw-requests.js';

const SESSIONS = 200;

test(`The embedded server serves ${SESSIONS} sessions at once, each with an ephemeral node and a watch`, async () => {
  await using server = await EmbeddedZooKeeper.start();
  const watcher = await RawClient.connect({ port: server.port });
  const children = async (watch: boolean) => {
    const request = { path: '/all', watch };
    const { body } = await watcher.request(
      OpCode.getChildren,
      ReadRequest,
      request,
      GetChildrenResponse,
    );
    return body!.children.length;
  };
  await create(watcher, '/all');

  const clients = await Promise.all(
    Array.from({ length: SESSIONS }, () => RawClient.connect({ port: server.port })),
  );
  expect(new Set(clients.map(({ sessionIdHex }) => sessionIdHex)).size).toBe(SESSIONS);
  await Promise.all(
    clients.map(async (client) => {
      await client.request(OpCode.getChildren, ReadRequest, { path: '/all', watch: true });
      const { err } = await create(client, '/all/n-', CreateFlag.ephemeralSequential);
      expect(err).toBe(0);
    }),
  );
  expect(await children(false)).toBe(SESSIONS);
  await Promise.all(clients.map((client) => client.untilEvents(1)));
  await Promise.all(clients.map((client) => client.closeSession()));
  expect(await children(false)).toBe(0);
});
