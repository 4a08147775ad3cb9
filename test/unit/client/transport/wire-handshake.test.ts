import { describe, expect, test } from 'vitest';
import {
  ConnectionError,
  NotAuthorizedError,
  SessionExpiredError,
} from '../../../../lib/client/index.js';
import { ErrorCode, OpCode, Xid } from '../../../../lib/protocol/index.js';
import type { Script } from '../../../support/scripted-server.js';
import { attach } from './attach.js';

const old = { id: 'beef', password: 'ab'.repeat(16), lastZxid: 2 ** 40 + 7 };

describe('the handshake of the wire transport', () => {
  test('requests a new session, and takes the timeout, id and password from the reply', async () => {
    const { server, attached } = await attach({
      onConnect: (peer) =>
        peer.greet({ timeout: 6000, sessionId: -2n, password: Buffer.from('secret') }),
    });
    const transport = await attached;
    expect(transport.timeout).toBe(6000);
    expect(transport.credentials).toEqual({
      id: 'fffffffffffffffe',
      password: Buffer.from('secret').toString('hex'),
      lastZxid: 0,
    });
    const { sessionId, password, lastZxidSeen, timeout, readOnly } = server.peers[0].hello;
    expect({ sessionId, lastZxidSeen, timeout, readOnly }).toEqual({
      sessionId: 0n,
      lastZxidSeen: 0,
      timeout: 4000,
      readOnly: false,
    });
    expect(password).toEqual(Buffer.alloc(16));
    transport.destroy();
  });

  test('sends the id, the password and the last seen transaction of an existing session', async () => {
    const { server, attached } = await attach({}, { credentials: old });
    const transport = await attached;
    expect(transport.credentials.id).toBe('beef');
    const { sessionId, password, lastZxidSeen } = server.peers[0].hello;
    expect({ sessionId, lastZxidSeen }).toEqual({ sessionId: 0xbeefn, lastZxidSeen: 2 ** 40 + 7 });
    expect(password).toEqual(Buffer.from(old.password, 'hex'));
    transport.destroy();
  });

  test('accepts a reply without the read-only byte, as old servers send it', async () => {
    const { attached } = await attach({ onConnect: (peer) => peer.greet({ readOnly: undefined }) });
    (await attached).destroy();
  });

  test.each([
    ['that the session is over', { sessionId: 0n, timeout: 0 }],
    ['another session', { sessionId: 0xdeadn }],
  ])('detects an expired session by %s in the reply', async (_, greeting) => {
    const { server, attached, ended } = await attach(
      { onConnect: (peer) => peer.greet(greeting) },
      { credentials: old },
    );
    await expect(attached).rejects.toBeInstanceOf(SessionExpiredError);
    await expect(attached).rejects.toThrow('the session is over: zk1:2181 does not know it');
    await server.peers[0].closed;
    expect(ended).toEqual([]);
  });

  test('drops the connection of another session when the signal aborts', async () => {
    const abort = new AbortController();
    const { server, attached } = await attach(
      { onConnect: (peer) => peer.greet({ sessionId: 0xdeadn }) },
      { credentials: old, signal: abort.signal },
    );
    await expect
      .poll(() => server.peers[0]?.asked.map(({ type }) => type))
      .toEqual([OpCode.closeSession]);
    abort.abort(new Error('stopped'));
    await expect(attached).rejects.toThrow('stopped');
    await server.peers[0].closed;
  });

  test('rejects with ConnectionError if a server creates no session', async () => {
    const { attached } = await attach({
      onConnect: (peer) => peer.greet({ sessionId: 0n, timeout: 0 }),
    });
    await expect(attached).rejects.toBeInstanceOf(ConnectionError);
    await expect(attached).rejects.toThrow('zk1:2181 did not attach a session: it made no session');
  });

  test('rejects a read-only server', async () => {
    const { server, attached } = await attach({
      onConnect: (peer) => peer.greet({ readOnly: true }),
    });
    await expect(attached).rejects.toBeInstanceOf(ConnectionError);
    await expect(attached).rejects.toThrow('it is read-only');
    await server.peers[0].closed;
  });

  test('rejects with NotAuthorizedError if the credentials are refused', async () => {
    const { attached } = await attach(
      { onRequest: (peer) => peer.refuse(Xid.auth, ErrorCode.authFailed) },
      { authInfo: ['a:1'] },
    );
    await expect(attached).rejects.toBeInstanceOf(NotAuthorizedError);
    await expect(attached).rejects.toThrow('zk1:2181 refused the credentials in auth');
  });

  test.each<[string, Script['onConnect'], RegExp]>([
    ['closes the connection', (peer) => peer.socket.end(), /the connection broke/],
    ['resets', (peer) => peer.socket.resetAndDestroy(), /ECONNRESET/],
    [
      'says garbage',
      (peer) => peer.socket.write('HTTP/1.1 400 Bad Request\r\n'),
      /it is not a ZooKeeper server, and answers "HTTP\/1.1 400 Bad Request"/,
    ],
    [
      'sends a frame that is longer than any reply to a handshake',
      (peer) => peer.socket.write(Buffer.from([0, 0, 4, 1])),
      /a frame of length 1025, at most 1024 is allowed/,
    ],
    ['sends a negative length', (peer) => peer.socket.write(Buffer.alloc(8, 0xff)), /length -1/],
    ['sends a frame that is too short', (peer) => peer.send((to) => to.int(0)), /wanted, 0 left/],
    [
      'sends a password of an excessive length',
      (peer) =>
        peer.send((to) => {
          for (const field of [0, 4000, 0, 7, 0x7fff_ffff]) to.int(field);
        }),
      /2147483647 bytes wanted/,
    ],
  ])('rejects with ConnectionError if the server %s', async (_, onConnect, message) => {
    const { server, attached, ended } = await attach({ onConnect });
    await expect(attached).rejects.toBeInstanceOf(ConnectionError);
    await expect(attached).rejects.toThrow(message);
    await server.peers[0].closed;
    expect(ended).toEqual([]);
  });

  test('rejects at its timeout if the reply is never complete', async () => {
    const time = new AbortController();
    const { server, attached } = await attach(
      {
        onConnect: ({ socket }) => {
          socket.write(Buffer.from([0, 0, 4, 0]));
          time.abort(new Error('time is up'));
        },
      },
      { signal: time.signal },
    );
    await expect(attached).rejects.toThrow('time is up');
    await server.peers[0].closed;
  });

  test('closes its connection when it is aborted', async () => {
    const controller = new AbortController();
    const { server, attached } = await attach(
      { onConnect: () => controller.abort(new Error('called off')) },
      { signal: controller.signal },
    );
    await expect(attached).rejects.toThrow('called off');
    await server.peers[0].closed;
  });

  test('opens no connection if it is aborted before it starts', async () => {
    const { server, attached } = await attach(
      {},
      { signal: AbortSignal.abort(new Error('before')) },
    );
    await expect(attached).rejects.toThrow('before');
    expect(server.peers).toEqual([]);
  });
});
