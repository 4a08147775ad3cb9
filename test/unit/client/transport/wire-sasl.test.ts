import { describe, expect, test } from 'vitest';
import {
  ConnectionError,
  NotAuthorizedError,
  SessionExpiredError,
} from '../../../../lib/client/index.js';
import {
  digestMd5,
  parseDirectives,
  respond,
} from '../../../../lib/client/transport/sasl/digest-md5.js';
import type { ConnectRequest } from '../../../../lib/client/transport/transport.js';
import { ErrorCode, OpCode, Xid } from '../../../../lib/protocol/index.js';
import type { Asked, Peer, Script } from '../../../support/scripted-server.js';
import { attach as attachWith } from './attach.js';

const USER = { user: 'shop', password: 'hunter2' };
const CHALLENGE = Buffer.from('realm="zk-sasl-md5",nonce="n",charset=utf-8,algorithm=md5-sess');

/** Attaches a session, authenticated by DIGEST-MD5, to a server that behaves as `script` says. */
const attach = (script: Script, options?: Partial<ConnectRequest>) =>
  attachWith(script, options, digestMd5(USER.user, USER.password));

/** Replies to a token as a server does that knows the password. */
function authenticate(peer: Peer, { xid, from }: Asked): void {
  const token = from.bytes()!;
  const cnonce = parseDirectives(token).get('cnonce')?.[0];
  if (cnonce === undefined) return peer.reply(xid, (to) => to.bytes(CHALLENGE));
  const { response, proof } = respond(CHALLENGE, { ...USER, uri: 'zookeeper/zk-sasl-md5', cnonce });
  expect(token).toEqual(response);
  peer.reply(xid, (to) => to.bytes(Buffer.from(`rspauth=${proof}`)));
}

describe('SASL over the wire transport', () => {
  test('precedes auth and all other requests, and the session is attached when all have replied', async () => {
    const { server, attached } = await attach(
      {
        onRequest: (peer, asked) => {
          if (asked.type === OpCode.sasl) authenticate(peer, asked);
          else peer.reply(asked.xid);
        },
      },
      { authInfo: ['a:b', 'c:d'] },
    );
    const transport = await attached;
    await new Promise((resolve) => transport.request({ kind: 'sync', path: '/' }, resolve));
    expect(server.peers[0]!.asked.map(({ xid, type }) => [xid, type])).toEqual([
      [1, OpCode.sasl],
      [2, OpCode.sasl],
      [Xid.auth, OpCode.auth],
      [Xid.auth, OpCode.auth],
      [3, OpCode.sync],
    ]);
    transport.destroy();
  });

  test.each([
    [
      'replies without a token',
      (peer: Peer, xid: number) => peer.reply(xid, (to) => to.bytes(null)),
      /does not authenticate clients with SASL.*section Server/,
    ],
    [
      'does not know the request',
      (peer: Peer, xid: number) => peer.refuse(xid, ErrorCode.unimplemented),
      /does not authenticate clients with SASL.*section Server/,
    ],
    [
      'refuses the mechanism',
      (peer: Peer, xid: number) => peer.refuse(xid, ErrorCode.authFailed),
      /refused the mechanism DIGEST-MD5 \(-115\)/,
    ],
    [
      'sends no challenge',
      (peer: Peer, xid: number) => peer.reply(xid, (to) => to.bytes(Buffer.from('?'))),
      /challenge of the server is malformed/,
    ],
  ])('is refused if the server %s', async (_, onToken, message) => {
    const { server, attached } = await attach({ onRequest: (peer, { xid }) => onToken(peer, xid) });
    const error = await attached.catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(NotAuthorizedError);
    expect((error as Error).message).toMatch(message);
    expect((error as Error).message).toContain('SASL authentication (DIGEST-MD5) with zk1:2181');
    await server.peers[0]!.closed;
  });

  test.each([ErrorCode.authFailed, ErrorCode.sessionClosedRequireAuth])(
    'is refused with the name of the user if the server replies %d to the response',
    async (code) => {
      const { attached } = await attach({
        onRequest: (peer, asked) => {
          if (asked.xid === 1) authenticate(peer, asked);
          else peer.refuse(asked.xid, code);
        },
      });
      await expect(attached).rejects.toThrow(
        `the server refused the user "shop" or its password (${code})`,
      );
      await expect(attached).rejects.toBeInstanceOf(NotAuthorizedError);
    },
  );

  test('fails with a ConnectionError, which is retried, if the connection breaks meanwhile', async () => {
    const { attached } = await attach({ onRequest: (peer) => peer.socket.destroy() });
    await expect(attached).rejects.toThrow(/broke before the end of SASL authentication/);
    await expect(attached).rejects.toBeInstanceOf(ConnectionError);
  });

  test('ends with the signal of the attempt, and closes the connection', async () => {
    const controller = new AbortController();
    const { server, attached } = await attach(
      { onRequest: () => controller.abort(new Error('enough')) },
      { signal: controller.signal },
    );
    await expect(attached).rejects.toThrow('enough');
    await server.peers[0]!.closed;
  });

  test('is not complete when the server replies to credentials that were not sent', async () => {
    const { server, attached } = await attach({ onRequest: (peer) => peer.reply(Xid.auth) });
    await expect(attached).rejects.toThrow(/replied to unsent credentials/);
    await expect(attached).rejects.toBeInstanceOf(ConnectionError);
    await server.peers[0]!.closed;
  });

  test('does not hide that the session is over', async () => {
    const { attached } = await attach(
      { onConnect: (peer) => peer.greet({ timeout: 0, sessionId: 0n }) },
      { credentials: { id: 'beef', password: 'ab'.repeat(16) } },
    );
    await expect(attached).rejects.toBeInstanceOf(SessionExpiredError);
  });
});
