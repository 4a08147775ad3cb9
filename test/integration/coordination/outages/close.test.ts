import { setTimeout as sleep } from 'node:timers/promises';
import { GroupMember, PersistentNode, ZkCache } from 'nestjs-zookeeper/coordination';
import { expect } from 'vitest';
import { useClients, useLinks } from '../../../support/clients.js';
import { untilNothingLeft } from '../../../support/recipe-nodes.js';
import { serverHas, useServer } from '../../../support/servers.js';
import { currentWorld, it, MOMENTS } from '../../../support/virtual-time.js';

const server = useServer();
const newLink = useLinks(server);
const connect = useClients(server);

const RECIPES = { GroupMember, PersistentNode, ZkCache };

it.each([
  ['GroupMember', 'joined', []],
  ['GroupMember', 'did not join', []],
  ['PersistentNode', 'has no reply to its create', ['its last request has no reply']],
  ['ZkCache', 'has no reply to its first read', []],
] as const)(
  'close() of a %s that %s waits 2 seconds for a reply, and leaves nothing once the server replies',
  async (recipe, state, messages) => {
    const link = await newLink();
    const { connectString } = link;
    const client = await connect({ connectString, sessionTimeout: 30_000 });
    const errors: Error[] = [];
    const onError = (error: Error) => void errors.push(error);
    const opened = new RECIPES[recipe](client, '/path', { onError });
    const hasJoined = state === 'joined';
    if (hasJoined) opened.start();
    await sleep(50);
    await link.holdReplies();
    if (!hasJoined) opened.start();
    await sleep(50);
    const before = performance.now();
    await opened.close();
    expect((performance.now() - before) / 1000).toBeCloseTo(2);
    const code = 'CONNECTION';
    const expected = messages.map((text) => ({ code, message: expect.stringContaining(text) }));
    expect(errors).toMatchObject(expected);
    await link.resume();
    await untilNothingLeft(server, client, '/path');
  },
);

// The server never deletes a container that never had a child.
it.runIf(serverHas.containers)('close() at any moment leaves no directory', async () => {
  const client = await connect();
  for (const moment of MOMENTS) {
    const opened = [
      new GroupMember(client, `/close/${moment}/group`, { id: 'a' }),
      new PersistentNode(client, `/close/${moment}/parent/node`),
    ];
    for (const each of opened) each.start();
    await currentWorld().sleep(moment);
    await Promise.all(opened.map((each) => each.close()));
  }
  await currentWorld().sleep(5 * 60_000);
  expect(await client.exists('/close')).toBeUndefined();
});
