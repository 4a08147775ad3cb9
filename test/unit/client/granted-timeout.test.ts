import { ZkClient } from 'nestjs-zookeeper';
import { expect, test } from 'vitest';
import { eventually } from '../../support/eventually.js';
import { type Peer, ScriptedServer } from '../../support/scripted-server.js';

/** Connects a client whose server grants these timeouts, one for each connection. */
async function reconnected(...granted: number[]) {
  const timeouts = [...granted];
  const server = await ScriptedServer.start({
    onConnect: (peer) => peer.greet({ timeout: timeouts.shift() }),
    onRequest: (peer: Peer, { xid }) => peer.reply(xid, (to) => to.text('/')),
  });
  const client = new ZkClient({
    connectString: `127.0.0.1:${server.port}`,
    sessionTimeout: 30_000,
    retry: { type: 'forever', delay: 10 },
  });
  await client.connect();
  const session = await client.session();
  for (let peers = 1; peers < granted.length; peers++) {
    server.peers.at(-1)!.socket.destroy();
    await eventually(() => expect(server.peers).toHaveLength(peers + 1));
    await client.sync('/');
  }
  const asked = server.peers.map(({ hello }) => hello.timeout);
  await client.close();
  await server[Symbol.asyncDispose]();
  return { asked, timeout: session.timeout };
}

test('a session asks for the timeout that it was granted first, which the servers know after a restart', async () => {
  expect(await reconnected(6_000, 6_000)).toEqual({ asked: [30_000, 6_000], timeout: 6_000 });
});

test('a session never counts on a longer timeout than an earlier one', async () => {
  expect(await reconnected(6_000, 20_000)).toMatchObject({ timeout: 6_000 });
  expect(await reconnected(6_000, 4_000, 20_000)).toEqual({
    asked: [30_000, 6_000, 4_000],
    timeout: 4_000,
  });
});
