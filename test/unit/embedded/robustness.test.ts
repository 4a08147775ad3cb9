import { deepStrictEqual, strictEqual } from 'node:assert';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { resolveOptions } from '../../../lib/embedded/options.js';
import { ZooKeeperServer } from '../../../lib/embedded/server.js';
import {
  type Codec,
  CreateFlag,
  CreateRequest,
  Empty,
  GetDataResponse,
  MAX_FRAME_LENGTH,
  OpCode,
  ReadRequest,
} from '../../../lib/protocol/index.js';
import { eventually } from '../../support/eventually.js';
import { requestFrame } from '../../support/frames.js';
import { MultiRequest, steps } from '../../support/multi-records.js';
import { RawClient } from '../../support/raw-client.js';
import { create } from '../../support/raw-requests.js';

const length = (value: number): Buffer => {
  const bytes = Buffer.alloc(4);
  bytes.writeInt32BE(value);
  return bytes;
};

describe('Whatever a client sends, the embedded server', () => {
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
    await create(witness, '/n');
  });

  // Other clients noticed nothing, nothing of the broken connections is left, and no invariant was
  // broken.
  afterEach(async () => {
    const root = { path: '/', watch: false };
    const { err } = await witness.request(OpCode.getData, ReadRequest, root, GetDataResponse);
    strictEqual(err, 0);
    await eventually(() => strictEqual(server.connections.size, 1));
    const { dataWatches, childWatches } = server.store.tree;
    strictEqual(dataWatches.counts.total + childWatches.counts.total, 0);
    await server.close();
    process.off('warning', onWarning);
    deepStrictEqual(warnings.splice(0), []);
  });

  test.each([
    ['a length below zero', length(-1)],
    ['the smallest length', length(-0x8000_0000)],
    ['a length above the limit', length(MAX_FRAME_LENGTH + 1)],
    ['an empty frame', length(0)],
    ['a frame too short for a request', Buffer.concat([length(6), Buffer.alloc(6)])],
    ['another protocol', Buffer.from('GET / HTTP/1.1\r\nHost: localhost\r\n\r\n')],
    ['an unknown four-letter word', Buffer.from('nope')],
  ])('closes the connection for %s, before and after a session has begun', async (_what, bytes) => {
    const fresh = await RawClient.open(port);
    fresh.socket.write(bytes);
    await fresh.closed;
    const client = await RawClient.connect({ port });
    client.socket.write(bytes);
    await client.closed;
  });

  test('rejects a truncated request, and keeps the connection', async () => {
    const client = await RawClient.connect({ port });
    const truncated: Codec<void> = { read: () => undefined, write: (_value, to) => to.int(100) };
    expect((await client.request(OpCode.create, truncated, undefined)).err).toBe(-5);
    expect((await client.ping()).err).toBe(0);
    await client.drop();
  });

  test('checks an ACL with the largest number of entries within 1.5 s', async () => {
    const client = await RawClient.connect({ port });
    const many = Array.from({ length: 85_000 }, (_, perms) => ({ perms, scheme: '', id: '' }));
    const before = process.cpuUsage();
    const request = { path: '/n/many', data: null, acl: many, flags: 0 };
    expect((await client.request(OpCode.create, CreateRequest, request)).err).toBe(-114);
    // The CPU time of this process, because other processes may keep the machine busy.
    const { user, system } = process.cpuUsage(before);
    expect(user + system).toBeLessThan(1_500_000);
    await client.drop();
  });

  test('closes the connection if a reply would not fit into memory', async () => {
    const data = Buffer.alloc(1_000_000, 'x');
    await create(witness, '/big', CreateFlag.persistent, data);
    const client = await RawClient.connect({ port });
    const all = Array.from({ length: 200 }, () => steps.get('/big'));
    await expect(client.request(OpCode.multiRead, MultiRequest, all, Empty)).rejects.toThrow(
      'closed',
    );
  });

  test('discards half a frame and a half-closed connection without leaving anything', async () => {
    const client = await RawClient.connect({ port });
    client.socket.write(
      requestFrame(OpCode.exists, ReadRequest, { path: '/n', watch: true }).subarray(0, 9),
    );
    client.socket.end();
    await client.closed;
  });

  test('serves a client that does not read with bounded memory', async () => {
    const data = Buffer.alloc(500_000, 'x');
    await create(witness, '/big', CreateFlag.persistent, data);
    const slow = await RawClient.connect({ port });
    slow.socket.pause();
    const before = process.memoryUsage().arrayBuffers;
    const answers = Array.from({ length: 80 }, () =>
      slow.request(OpCode.getData, ReadRequest, { path: '/big', watch: false }, GetDataResponse),
    );
    for (let i = 0; i < 100; i++) await witness.ping();
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(20_000_000);
    slow.socket.resume();
    for (const answer of answers) expect((await answer).body?.data).toHaveLength(500_000);
    await slow.drop();
  });
});
