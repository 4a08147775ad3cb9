import { expect, test } from 'vitest';
import { NodeError, ZkClient } from '../../../lib/client/index.js';
import { ErrorCode, OpCode } from '../../../lib/protocol/index.js';
import { ScriptedServer } from '../../support/scripted-server.js';

test('a server older than 3.6 is asked for a persistent watch once', async () => {
  let asked = 0;
  await using server = await ScriptedServer.start({
    onRequest(peer, { xid, type }) {
      if (type !== OpCode.addWatch) return peer.reply(xid, (to) => to.text('/'));
      asked++;
      // As an old server does with a request that it does not know.
      peer.refuse(xid, ErrorCode.unimplemented);
      peer.socket.end();
    },
  });
  const client = new ZkClient({
    connectString: `127.0.0.1:${server.port}`,
    retry: { type: 'forever', delay: 10 },
  });
  await client.connect();
  for (let attempt = 0; attempt < 2; attempt++) {
    const error = await client.addWatch('/a', () => {}).catch((e: unknown) => e);
    expect(error).toBeInstanceOf(NodeError);
    expect(error).toMatchObject({
      code: 'UNIMPLEMENTED',
      message: expect.stringContaining('need Apache ZooKeeper 3.6'),
    });
    await client.sync('/');
  }
  expect(asked).toBe(1);
  await client.close();
});
