import { deepStrictEqual } from 'node:assert';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { resolveOptions } from '../../../lib/embedded/options.js';
import { ZooKeeperServer } from '../../../lib/embedded/server.js';
import {
  AddWatchRequest,
  AuthPacket,
  CheckVersionRequest,
  CheckWatchesRequest,
  ConnectRequest,
  CreateRequest,
  CreateTTLRequest,
  DeleteRequest,
  Empty,
  MAX_FRAME_LENGTH,
  OpCode,
  PathRequest,
  ReadRequest,
  RemoveWatchesRequest,
  SetACLRequest,
  SetDataRequest,
  SetWatches,
  SetWatches2,
} from '../../../lib/protocol/index.js';
import { frameOf, requestFrame } from '../../support/frames.js';
import { memoryInUse } from '../../support/memory.js';
import { MultiRequest, steps } from '../../support/multi-records.js';
import { RawClient } from '../../support/raw-client.js';
import { create, OPEN } from '../../support/raw-requests.js';
import { randomFrom } from '../../support/server-script-random.js';

const [FRAMES, SEEDS] = process.env.NIGHTLY ? [10_000, [20_261_121, 7]] : [2_000, [7]];
const path = '/n';
const data = Buffer.alloc(64);
const known = {
  relativeZxid: 0,
  dataWatches: [path, '/gone'],
  existWatches: ['/gone'],
  childWatches: [path],
};

const connectRequest = {
  protocolVersion: 0,
  lastZxidSeen: 0,
  timeout: 1000,
  sessionId: 0n,
  password: Buffer.alloc(16),
  readOnly: false,
};

/** One valid frame of each kind that a client sends. */
const VALID = [
  frameOf((to) => ConnectRequest.write(connectRequest, to)),
  requestFrame(OpCode.create, CreateRequest, { path: '/n/a', data, acl: OPEN, flags: 2 }),
  requestFrame(OpCode.create2, CreateRequest, { path: '/n/e', data, acl: OPEN, flags: 1 }),
  requestFrame(OpCode.createContainer, CreateRequest, { path: '/n/c', data, acl: OPEN, flags: 4 }),
  requestFrame(OpCode.createTTL, CreateTTLRequest, {
    path: '/n/t',
    data,
    acl: OPEN,
    flags: 5,
    ttl: 9,
  }),
  requestFrame(OpCode.delete, DeleteRequest, { path: '/n/a0000000000', version: -1 }),
  requestFrame(OpCode.getData, ReadRequest, { path, watch: true }),
  requestFrame(OpCode.getChildren, ReadRequest, { path, watch: true }),
  requestFrame(OpCode.getChildren2, ReadRequest, { path, watch: true }),
  requestFrame(OpCode.exists, ReadRequest, { path: '/none', watch: true }),
  requestFrame(OpCode.setData, SetDataRequest, { path, data, version: -1 }),
  requestFrame(OpCode.setACL, SetACLRequest, { path: '/n/a0000000001', acl: OPEN, version: -1 }),
  requestFrame(OpCode.getACL, PathRequest, { path }),
  requestFrame(OpCode.sync, PathRequest, { path }),
  requestFrame(OpCode.ping, Empty, undefined),
  requestFrame(OpCode.auth, AuthPacket, { type: 0, scheme: 'digest', auth: Buffer.from('a:b') }),
  requestFrame(OpCode.setWatches, SetWatches, known),
  requestFrame(OpCode.setWatches2, SetWatches2, {
    ...known,
    persistentWatches: [path],
    persistentRecursiveWatches: ['/'],
  }),
  requestFrame(OpCode.addWatch, AddWatchRequest, { path, mode: 1 }),
  requestFrame(OpCode.checkWatches, CheckWatchesRequest, { path, type: 3 }),
  requestFrame(OpCode.removeWatches, RemoveWatchesRequest, { path, type: 3 }),
  requestFrame(OpCode.check, CheckVersionRequest, { path, version: 0 }),
  requestFrame(OpCode.getEphemerals, PathRequest, { path }),
  requestFrame(OpCode.getAllChildrenNumber, PathRequest, { path }),
  requestFrame(OpCode.whoAmI, Empty, undefined),
  requestFrame(OpCode.reconfig, Empty, undefined),
  requestFrame(OpCode.multi, MultiRequest, [
    steps.create('/n/m', { flags: 2 }),
    steps.set(path, 'x'),
    steps.check(path),
    steps.createTtl('/n/t', 5),
    steps.delete('/n/c'),
  ]),
  requestFrame(OpCode.multiRead, MultiRequest, [steps.get(path), steps.children('/')]),
  requestFrame(OpCode.closeSession, Empty, undefined),
];

describe('The embedded server survives random and mutated frames', () => {
  let server: ZooKeeperServer;
  let port: number;
  let witness: RawClient;
  const warnings: Error[] = [];
  const onWarning = (warning: Error) => warnings.push(warning);

  beforeEach(async () => {
    process.on('warning', onWarning);
    server = new ZooKeeperServer(resolveOptions({ tickTime: 50 }));
    port = await server.listen();
    witness = await RawClient.connect({ port });
    await create(witness, path);
  });
  afterEach(async () => {
    await server.close();
    process.off('warning', onWarning);
    deepStrictEqual(warnings.splice(0), []);
  });

  test.each(SEEDS)(`${FRAMES} of seed %i`, async (seed) => {
    const random = randomFrom(seed);
    const below = (limit: number) => Math.floor(random() * limit);

    const mutate = (original: Buffer): Buffer => {
      let bytes = Buffer.from(original);
      for (let times = below(4); times > 0; times--) bytes[below(bytes.length)] = below(256);
      if (random() < 0.2)
        bytes.writeInt32BE(below(2) ? below(0x7fff_ffff) : -below(100), below(bytes.length - 4));
      if (random() < 0.2) bytes = bytes.subarray(0, below(bytes.length));
      return bytes;
    };
    const noise = (): Buffer => {
      const bytes = Buffer.alloc(4 + (random() < 0.01 ? below(MAX_FRAME_LENGTH) : below(200)));
      for (let at = 0; at < Math.min(bytes.length, 400); at++) bytes[at] = below(256);
      // The type of a request is usually a known one.
      if (random() < 0.8 && bytes.length >= 12) {
        bytes.writeInt32BE(Object.values(OpCode)[below(Object.values(OpCode).length)], 8);
      }
      return bytes;
    };
    const next = (): Buffer => {
      const bytes = random() < 0.25 ? noise() : mutate(VALID[below(VALID.length)]);
      // The length is usually right, so that the mutation reaches the content of the frame.
      if (random() < 0.9 && bytes.length >= 4) bytes.writeInt32BE(bytes.length - 4);
      return bytes;
    };

    const before = memoryInUse();
    let fuzzed = 0;
    while (fuzzed < FRAMES) {
      const client =
        random() < 0.2 ? await RawClient.open(port) : await RawClient.connect({ port });
      // Reads and discards the replies, so that they do not pile up.
      client.socket.removeAllListeners('data').resume();
      for (let i = 1 + below(20); i > 0 && client.socket.writable; i--, fuzzed++) {
        client.socket.write(next());
        if (random() < 0.1) await new Promise(setImmediate);
      }
      expect((await witness.ping()).err).toBe(0);
      await client.drop();
    }

    await expect.poll(() => server.connections.size).toBe(1);
    const { dataWatches, childWatches } = server.store.tree;
    expect(dataWatches.counts.total + childWatches.counts.total).toBe(0);
    expect(witness.events).toEqual([]);
    expect(memoryInUse() - before).toBeLessThan(200_000_000);
  });
});
