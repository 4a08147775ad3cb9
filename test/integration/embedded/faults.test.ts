import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect } from 'vitest';
import { InProcessZooKeeper } from '../../../lib/embedded/in-process-zookeeper.js';
import {
  AuthPacket,
  CreateFlag,
  CreateRequest,
  CreateTTLRequest,
  DeleteRequest,
  GetDataResponse,
  OpCode,
  ReadRequest,
  Xid,
} from '../../../lib/protocol/index.js';
import { RawClient, type RawConnectOptions } from '../../support/raw-client.js';
import { create, exists, OPEN } from '../../support/raw-requests.js';
import { afterEach, beforeEach, it } from '../../support/virtual-time.js';

const NO_NODE = -101;

let server: InProcessZooKeeper;
let client: RawClient;
let witness: RawClient;

const connect = (options: Partial<RawConnectOptions> = {}) =>
  RawClient.connect({ port: server.connect(), timeout: 20_000, ...options });
const reconnect = ({ session: { sessionId, password } }: RawClient) =>
  connect({ sessionId, password: password! });

beforeEach(async () => {
  server = new InProcessZooKeeper({ tickTime: 50 });
  [client, witness] = [await connect(), await connect({ timeout: 60_000 })];
});
afterEach(() => server.stop());

/** Resolves to whether the promise is still pending after a second. */
async function isPending(work: Promise<unknown>): Promise<boolean> {
  let settled = false;
  const settle = () => (settled = true);
  work.then(settle, settle);
  await delay(1000);
  return !settled;
}

describe('dropReply()', () => {
  it('breaks the connection once, after the request was applied', async () => {
    await server.faults.dropReply({ op: 'create' });
    expect((await exists(client, '/a')).err).toBe(NO_NODE);
    await expect(create(client, '/a')).rejects.toThrow('closed the connection');
    expect((await exists(witness, '/a')).err).toBe(0);
    expect((await create(await reconnect(client), '/b')).err).toBe(0);
  });

  it('concerns one session, although other sessions send the same request', async () => {
    await server.faults.dropReply({ op: 'create', session: client.sessionIdHex });
    expect((await create(witness, '/a')).err).toBe(0);
    await expect(create(client, '/b')).rejects.toThrow('closed the connection');
  });

  it('concerns the close of a session, which has ended nevertheless, and auth', async () => {
    await create(client, '/e', CreateFlag.ephemeral);
    await server.faults.dropReply({ op: 'closeSession' });
    await expect(client.closeSession()).rejects.toThrow('closed the connection');
    expect((await exists(witness, '/e')).err).toBe(NO_NODE);
    await server.faults.dropReply({ op: 'auth' });
    const proof = { type: 0, scheme: 'digest', auth: Buffer.from('ben:secret') };
    const asked = witness.request(OpCode.auth, AuthPacket, proof, undefined, Xid.auth);
    await expect(asked).rejects.toThrow('closed the connection');
  });

  it('has no effect after it was undone', async () => {
    const undo = await server.faults.dropReply({ op: 'exists' });
    await undo();
    await undo();
    expect((await exists(client, '/')).err).toBe(0);
  });
});

it('refuseConnections() refuses new connections until it is undone, and keeps existing ones', async () => {
  const undo = await server.faults.refuseConnections();
  await expect(connect()).rejects.toThrow();
  expect((await client.ping()).err).toBe(0);
  await undo();
  expect((await (await connect()).ping()).err).toBe(0);
});

describe('delay()', () => {
  it('delays replies and events of a session, in order', async () => {
    await server.faults.delay(150, { session: client.sessionIdHex });
    const start = performance.now();
    const answers = Promise.all([
      exists(client, '/a', true),
      create(client, '/a'),
      exists(client, '/a'),
    ]);
    expect((await answers).map(({ err }) => err)).toEqual([NO_NODE, 0, 0]);
    expect(Math.round(performance.now() - start)).toBe(151);
    expect(client.received).toEqual(['1', 'event:1:/a', '2', '3']);
  });

  it('ends when it is undone, and sends the delayed replies at once; each delay is undone by itself', async () => {
    const undo = await server.faults.delay(600_000);
    await server.faults.delay(20);
    const answer = exists(client, '/');
    await undo();
    const undone = performance.now();
    expect((await answer).err).toBe(0);
    expect(performance.now() - undone).toBeLessThan(25);
  });

  it('delays replies of any size', async () => {
    await create(witness, '/big', CreateFlag.persistent, Buffer.alloc(500_000, 'x'));
    await server.faults.delay(20);
    const request = { path: '/big', watch: false };
    const large = Array.from({ length: 5 }, () =>
      client.request(OpCode.getData, ReadRequest, request, GetDataResponse),
    );
    const small = Array.from({ length: 5 }, () => exists(client, '/big'));
    for (const { body } of await Promise.all(large)) expect(body!.data).toHaveLength(500_000);
    for (const { err } of await Promise.all(small)) expect(err).toBe(0);
  });
});

describe('cut()', () => {
  it('holds back the requests of a client until it is undone', async () => {
    const restore = await server.faults.cut('requests', { session: client.sessionIdHex });
    const created = create(client, '/late');
    expect(await isPending(created)).toBe(true);
    expect((await exists(witness, '/late')).err).toBe(NO_NODE);
    await restore();
    expect((await created).err).toBe(0);
  });

  it('of requests expires the session, although its client sends pings, and closes the connection', async () => {
    const cutOff = await connect({ timeout: 1500 });
    await create(cutOff, '/e', CreateFlag.ephemeral);
    await exists(witness, '/e', true);
    await server.faults.cut('requests', { session: cutOff.sessionIdHex });
    const start = performance.now();
    const pings = setInterval(() => cutOff.ping().catch(() => {}), 50);
    await witness.untilEvents(1);
    expect(performance.now() - start).toBeGreaterThan(1450);
    expect(performance.now() - start).toBeLessThan(1600);
    await cutOff.closed;
    clearInterval(pings);
  });

  it('of replies: requests are applied, and answered in order when it is undone', async () => {
    const restore = await server.faults.cut('replies', { session: client.sessionIdHex });
    const answers = Promise.all([create(client, '/a'), exists(client, '/a'), client.ping()]);
    expect(await isPending(answers)).toBe(true);
    expect((await exists(witness, '/a')).err).toBe(0);
    await restore();
    expect((await answers).map(({ err }) => err)).toEqual([0, 0, 0]);
  });

  it('in both directions holds back the expiry and a new connection of the client', async () => {
    const session = client.sessionIdHex;
    const restore = await server.faults.cut('both', { session });
    const back = reconnect(client);
    await server.expireSession(session);
    expect(await isPending(Promise.race([client.closed, back]))).toBe(true);
    await restore();
    await client.closed;
    expect((await back).session.sessionId).toBe(0n);
  });

  it('keeps the session of a client that disconnects meanwhile', async () => {
    const restore = await server.faults.cut();
    client.socket.destroy();
    await restore();
    const back = await reconnect(client);
    expect(back.session.sessionId).toBe(client.session.sessionId);
  });
});

it('dropConnections() drops the connection of one session', async () => {
  await server.dropConnections(`0x${client.sessionIdHex}`);
  await client.closed;
  expect((await witness.ping()).err).toBe(0);
  await expect(server.dropConnections(client.sessionIdHex)).rejects.toThrow('no connection of');
});

describe('skipClock()', () => {
  it('ends sessions whose timeout has passed, connected or not, and removes containers that this empties', async () => {
    const request = { path: '/c', data: null, acl: OPEN, flags: CreateFlag.container };
    await witness.request(OpCode.createContainer, CreateRequest, request);
    for (const path of ['/e', '/c/e']) await create(client, path, CreateFlag.ephemeral);
    await server.skipClock(10_000);
    expect((await client.ping()).err).toBe(0);
    await server.skipClock(20_100);
    await client.closed;
    for (const path of ['/e', '/c']) expect((await exists(witness, path)).err).toBe(NO_NODE);
    expect((await witness.ping()).err).toBe(0);
  });

  it('deletes nodes whose time to live has passed', async () => {
    for (const [path, ttl] of [
      ['/short', 60_000],
      ['/long', 600_000],
    ] as const) {
      const request = { path, data: null, acl: OPEN, flags: CreateFlag.ttl, ttl };
      await client.request(OpCode.createTTL, CreateTTLRequest, request);
    }
    await server.skipClock(30_000);
    expect((await exists(await connect(), '/short')).err).toBe(0);
    await server.skipClock(31_000);
    expect((await exists(await connect(), '/short')).err).toBe(NO_NODE);
    expect((await exists(await connect(), '/long')).err).toBe(0);
  });
});

it('emptied containers are removed once a minute by default, and when the clock is advanced', async () => {
  const paths = ['/unused', '/used', '/emptied'];
  const empty = async () => {
    await create(witness, '/emptied/child');
    const request = { path: '/emptied/child', version: -1 };
    await witness.request(OpCode.delete, DeleteRequest, request);
  };
  for (const path of paths) {
    const request = { path, data: null, acl: OPEN, flags: CreateFlag.container };
    await witness.request(OpCode.createContainer, CreateRequest, request);
  }
  await create(witness, '/used/child');
  await empty();
  const left = async () => {
    const replies = await Promise.all(paths.map((path) => exists(witness, path)));
    return replies.map(({ err }) => err);
  };
  await delay(59_000);
  expect(await left()).toEqual([0, 0, 0]);
  await delay(1100);
  expect(await left()).toEqual([0, 0, NO_NODE]);
  const request = { path: '/emptied', data: null, acl: OPEN, flags: CreateFlag.container };
  await witness.request(OpCode.createContainer, CreateRequest, request);
  await empty();
  await server.skipClock(1);
  expect(await left()).toEqual([0, 0, NO_NODE]);
});
