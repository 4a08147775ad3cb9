import type { Socket } from 'node:net';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { resolveOptions } from '../../../lib/embedded/options.js';
import { ZooKeeperServer } from '../../../lib/embedded/server.js';
import { RawClient } from '../../support/raw-client.js';

let server: ZooKeeperServer;
beforeEach(() => void (server = new ZooKeeperServer(resolveOptions({}))));
afterEach(() => server.close());
afterEach(() => vi.restoreAllMocks());

describe('a connection to the embedded server', () => {
  it('is closed after 10 s without a request until it has a session, which may be idle for longer', async () => {
    const accept = vi.spyOn(server, 'accept');
    const port = await server.listen();
    const silent = await RawClient.open(port);
    await RawClient.connect({ port });
    const sockets = accept.mock.calls.map(([socket]) => socket as Socket);
    expect(sockets.map(({ timeout }) => timeout)).toEqual([10_000, 0]);
    sockets[0]!.emit('timeout');
    await silent.closed;
  });

  it('is closed after 10 s without a session, although bytes arrive', async () => {
    const accept = vi.spyOn(server, 'accept');
    const slow = await RawClient.open(await server.listen());
    await vi.waitUntil(() => accept.mock.calls.length === 1);
    // Otherwise it would be closed because it is idle.
    (accept.mock.calls[0]![0] as Socket).setTimeout(0);
    vi.spyOn(performance, 'now').mockReturnValue(performance.now() + 10_001);
    slow.socket.write('\0');
    await slow.closed;
  });
});
