import { expect, test } from 'vitest';
import { EmbeddedZooKeeper } from 'nestjs-zookeeper/embedded';
import {
  CreateFlag,
  CreateRequest,
  GetChildrenResponse,
  OpCode,
  ReadRequest,
} from '../../lib/protocol/index.js';
import { RawClient } from '../support/raw-client.js';

const SESSIONS = 200;
const acl = [{ perms: 31, scheme: 'world', id: 'anyone' }];

test(`The embedded server serves ${SESSIONS} sessions at once, each with its own node and its watch`, async () => {
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
  const parent = { path: '/all', data: null, acl, flags: 0 };
  await watcher.request(OpCode.create, CreateRequest, parent);

  const clients = await Promise.all(
    Array.from({ length: SESSIONS }, () => RawClient.connect({ port: server.port })),
  );
  expect(new Set(clients.map(({ sessionIdHex }) => sessionIdHex)).size).toBe(SESSIONS);
  const flags = CreateFlag.ephemeralSequential;
  await Promise.all(
    clients.map(async (client) => {
      await client.request(OpCode.getChildren, ReadRequest, { path: '/all', watch: true });
      const request = { path: '/all/n-', data: null, acl, flags };
      expect((await client.request(OpCode.create, CreateRequest, request)).err).toBe(0);
    }),
  );
  expect(await children(false)).toBe(SESSIONS);
  await Promise.all(clients.map((client) => client.untilEvents(1)));
  await Promise.all(clients.map((client) => client.closeSession()));
  expect(await children(false)).toBe(0);
});
