import { setTimeout as delay } from 'node:timers/promises';
import { expect } from 'vitest';
import type { Transport } from '../../../lib/client/transport/transport.js';
import { connectWire } from '../../../lib/client/transport/wire-transport.js';
import { ErrorCode, EventType, Xid } from '../../../lib/protocol/index.js';
import { type Peer, ScriptedServer } from '../../support/scripted-server.js';
import { it } from '../../support/virtual-time.js';

/** Begins to attach a session to a server that answers nothing but the handshake. */
function attach(authInfo: string[] = []) {
  const peers: Peer[] = [];
  const log: string[] = [];
  const attached = connectWire(() => ScriptedServer.connect({}, peers))({
    address: { ip: '127.0.0.1', port: 0, host: '127.0.0.1', label: 'zk1:2181' },
    sessionTimeout: 4000,
    authInfo,
    signal: new AbortController().signal,
    listener: {
      onWatch: (event, path) => log.push(`${event} ${path}`),
      onDown: (reason) => log.push(`down: ${reason}`),
    },
  });
  const note = (name: string) => (code: number) => void log.push(`${name}: ${code}`);
  return { peer: peers[0]!, attached, log, note };
}

const ends = new Map<string, (transport: Transport) => unknown>([
  ['close()', (transport) => transport.close()],
  ['destroy()', (transport) => transport.destroy()],
]);

it('the handshake sends the credentials together with the connect request, and ends when all are accepted', async () => {
  const { peer, attached } = attach(['a:1', 'b:2']);
  let isAttached = false;
  void attached.then(() => (isAttached = true));
  await delay(30);
  expect(peer.asked.map(({ xid }) => xid)).toEqual([Xid.auth, Xid.auth]);
  peer.reply(Xid.auth);
  await delay(30);
  expect(isAttached).toBe(false);
  peer.reply(Xid.auth);
  (await attached).destroy();
});

it('close() waits for a second', async () => {
  const transport = await attach().attached;
  const start = performance.now();
  expect(await transport.close()).toBe(false);
  expect(Math.round(performance.now() - start)).toBe(1000);
});

it.each([...ends])(
  '%s fails each unanswered request once, and rejects new ones',
  async (_, end) => {
    const { attached, log, note } = attach();
    const transport = await attached;
    transport.request({ kind: 'exists', path: '/' }, note('before'));
    const ending = end(transport);
    expect(log).toEqual([]);
    expect(transport.request({ kind: 'exists', path: '/' }, note('after'))).toBe(false);
    await ending;
    await delay(10);
    await end(transport);
    await delay(10);
    expect(log).toEqual(['before: -4']);
  },
);

it.each([
  ['close()', 'delivers later replies and no events', 'second: -101'],
  ['destroy()', 'drops later replies and events', 'second: -4'],
] as const)('%s in a reply %s', async (name, _, late) => {
  const { peer, attached, log, note } = attach();
  const transport = await attached;
  transport.request({ kind: 'exists', path: '/' }, (code) => {
    note('first')(code);
    void ends.get(name)!(transport);
  });
  transport.request({ kind: 'exists', path: '/' }, note('second'));
  await delay(10);
  const [first, second] = peer.asked;
  peer.inOneChunk(() => {
    peer.refuse(first!.xid, ErrorCode.noNode);
    peer.event(EventType.created, '/late');
    peer.refuse(second!.xid, ErrorCode.noNode);
    peer.refuse(Xid.auth, ErrorCode.authFailed);
  });
  await peer.closed;
  expect(log).toEqual(['first: -101', late]);
});
