import { deepStrictEqual, strictEqual } from 'node:assert';
import { once } from 'node:events';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { resolveOptions } from '../../lib/embedded/options.js';
import { ZooKeeperServer } from '../../lib/embedded/server.js';
import {
  AuthPacket,
  type Codec,
  ConnectRequest,
  CreateRequest,
  DeleteRequest,
  GetDataResponse,
  MAX_FRAME_LENGTH,
  OpCode,
  PathRequest,
  ReadRequest,
  SetACLRequest,
  SetDataRequest,
  SetWatches,
  Writer,
} from '../../lib/protocol/index.js';
import { RawClient } from '../support/raw-client.js';
import { randomFrom } from '../support/server-script-random.js';

const acl = [{ perms: 31, scheme: 'world', id: 'anyone' }];

const length = (value: number): Buffer => {
  const bytes = Buffer.alloc(4);
  bytes.writeInt32BE(value);
  return bytes;
};

const frame = <T>(type: number, codec: Codec<T>, value: T): Buffer => {
  const writer = new Writer();
  writer.frame((to) => {
    to.int(1);
    to.int(type);
    codec.write(value, to);
  });
  return writer.take();
};

describe('Whatever one connection sends, the embedded server', () => {
  let server: ZooKeeperServer;
  let port: number;
  let witness: RawClient;
  const warnings: Error[] = [];
  const onWarning = (warning: Error) => warnings.push(warning);

  beforeEach(async () => {
    process.on('warning', onWarning);
    server = new ZooKeeperServer(resolveOptions({}));
    port = await server.listen();
    witness = await RawClient.connect({ port });
    await witness.request(OpCode.create, CreateRequest, { path: '/n', data: null, acl, flags: 0 });
  });

  // Nobody else noticed, nothing of the fallen connections is left, no rule of ours was broken.
  afterEach(async () => {
    const root = { path: '/', watch: false };
    const { err } = await witness.request(OpCode.getData, ReadRequest, root, GetDataResponse);
    strictEqual(err, 0);
    await vi.waitUntil(() => server.connectionCount === 1);
    const { dataWatches, childWatches } = server.store.tree;
    strictEqual(dataWatches.counts.total + childWatches.counts.total, 0);
    await server.close();
    process.off('warning', onWarning);
    deepStrictEqual(warnings.splice(0), []);
  });

  test.each([
    ['a length below zero', length(-1)],
    ['the least length there is', length(-0x8000_0000)],
    ['a length above what is allowed', length(MAX_FRAME_LENGTH + 1)],
    ['an empty frame', length(0)],
    ['a frame too short for a request', Buffer.concat([length(6), Buffer.alloc(6)])],
    ['another protocol', Buffer.from('GET / HTTP/1.1\r\nHost: localhost\r\n\r\n')],
    ['a four-letter word it does not know', Buffer.from('nope')],
  ])('closes the connection for %s, before and after a session began', async (_what, bytes) => {
    const fresh = await RawClient.open(port);
    fresh.socket.write(bytes);
    await fresh.closed;
    const client = await RawClient.connect({ port });
    client.socket.write(bytes);
    await client.closed;
  });

  test('answers a request that ends too early, and closes', async () => {
    const client = await RawClient.connect({ port });
    const truncated: Codec<void> = { read: () => undefined, write: (_value, to) => to.int(100) };
    expect((await client.request(OpCode.create, truncated, undefined)).err).toBe(-5);
    await client.closed;
  });

  test('waits for no one: half a frame and a closed half leave nothing behind', async () => {
    const client = await RawClient.connect({ port });
    client.socket.write(
      frame(OpCode.exists, ReadRequest, { path: '/n', watch: true }).subarray(0, 9),
    );
    client.socket.end();
    await client.closed;
  });

  test('takes requests that arrive one byte at a time', async () => {
    const client = await RawClient.connect({ port });
    const answer = client.ping();
    for (const byte of frame(OpCode.exists, ReadRequest, { path: '/n', watch: false })) {
      client.socket.write(Buffer.from([byte]));
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect((await answer).err).toBe(0);
    await once(client.socket, 'data');
    await client.drop();
  });

  test('serves a client that does not read at that client’s pace, within bounded memory', async () => {
    const data = Buffer.alloc(500_000, 'x');
    await witness.request(OpCode.create, CreateRequest, { path: '/big', data, acl, flags: 0 });
    const slow = await RawClient.connect({ port });
    slow.socket.pause();
    const before = process.memoryUsage().arrayBuffers;
    const answers = Array.from({ length: 300 }, () =>
      slow.request(OpCode.getData, ReadRequest, { path: '/big', watch: false }, GetDataResponse),
    );
    for (let i = 0; i < 100; i++) await witness.ping();
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(20_000_000);
    slow.socket.resume();
    for (const answer of answers) expect((await answer).body?.data).toHaveLength(500_000);
    await slow.drop();
  });

  test('lives through thousands of mutated frames', { timeout: 60_000 }, async () => {
    const random = randomFrom(20_261_121);
    const below = (limit: number) => Math.floor(random() * limit);
    const path = '/n';
    const valid = [
      frame(OpCode.create, CreateRequest, {
        path: '/n/a',
        data: Buffer.from('abc'),
        acl,
        flags: 2,
      }),
      frame(OpCode.createContainer, CreateRequest, { path: '/n/c', data: null, acl, flags: 4 }),
      frame(OpCode.delete, DeleteRequest, { path: '/n/a0000000000', version: -1 }),
      frame(OpCode.getData, ReadRequest, { path, watch: true }),
      frame(OpCode.getChildren2, ReadRequest, { path, watch: true }),
      frame(OpCode.exists, ReadRequest, { path: '/none', watch: true }),
      frame(OpCode.setData, SetDataRequest, { path, data: Buffer.alloc(64), version: -1 }),
      frame(OpCode.setACL, SetACLRequest, { path: '/n/a0000000001', acl, version: -1 }),
      frame(OpCode.getACL, PathRequest, { path }),
      frame(OpCode.sync, PathRequest, { path }),
      frame(OpCode.auth, AuthPacket, { type: 0, scheme: 'digest', auth: Buffer.from('a:b') }),
      frame(OpCode.setWatches, SetWatches, {
        relativeZxid: 0,
        dataWatches: [path, '/gone'],
        existWatches: ['/gone'],
        childWatches: [path],
      }),
    ];
    const connect = new Writer();
    connect.frame((to) =>
      ConnectRequest.write(
        {
          protocolVersion: 0,
          lastZxidSeen: 0,
          timeout: 1000,
          sessionId: 0n,
          password: Buffer.alloc(16),
          readOnly: false,
        },
        to,
      ),
    );
    valid.push(connect.take());

    const mutate = (original: Buffer): Buffer => {
      let bytes = Buffer.from(original);
      for (let times = below(4); times > 0; times--) bytes[below(bytes.length)] = below(256);
      if (random() < 0.2)
        bytes.writeInt32BE(below(2) ? below(0x7fff_ffff) : -below(100), below(bytes.length - 4));
      if (random() < 0.2) bytes = bytes.subarray(0, below(bytes.length));
      // Mostly the length is true, so that the mutation reaches what is inside the frame.
      if (random() < 0.8 && bytes.length >= 4) bytes.writeInt32BE(bytes.length - 4);
      return bytes;
    };

    let fuzzed = 0;
    while (fuzzed < 5000) {
      const client =
        random() < 0.2 ? await RawClient.open(port) : await RawClient.connect({ port });
      // What comes back is of no interest here, only that it does not pile up.
      client.socket.removeAllListeners('data').resume();
      for (let i = 1 + below(20); i > 0 && client.socket.writable; i--, fuzzed++) {
        client.socket.write(mutate(valid[below(valid.length)]));
      }
      expect((await witness.ping()).err).toBe(0);
      await client.drop();
    }
  });
});
