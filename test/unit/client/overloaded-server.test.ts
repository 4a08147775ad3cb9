import { ZkClient } from 'nestjs-zookeeper';
import { expect, test } from 'vitest';
import { isAnswer } from '../../../lib/client/session-deadline.js';
import { ErrorCode, OpCode } from '../../../lib/protocol/index.js';
import { ScriptedServer } from '../../support/scripted-server.js';

test('a delete that an overloaded server has not carried out is sent again', async () => {
  let deletes = 0;
  await using server = await ScriptedServer.start({
    onRequest(peer, { xid, type }) {
      if (type === OpCode.delete && ++deletes === 1) peer.refuse(xid, ErrorCode.throttled);
      else peer.reply(xid, (to) => to.text('/'));
    },
  });
  const client = new ZkClient({
    connectString: `127.0.0.1:${server.port}`,
    retry: { type: 'forever', delay: 10 },
  });
  await client.connect();
  const session = await client.session();
  await session.guaranteedDelete('/held');
  await client.sync('/');
  expect({ deletes, sessions: server.peers.length }).toEqual({ deletes: 2, sessions: 2 });
  await client.close();
});

test('the refusal of an overloaded server does not prove that the session is alive', () => {
  expect(isAnswer(ErrorCode.throttled)).toBe(false);
});
