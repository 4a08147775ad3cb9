import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { EmbeddedZooKeeper } from 'nestjs-zookeeper/embedded';
import {
  AuthPacket,
  CreateFlag,
  CreateTTLRequest,
  GetDataResponse,
  OpCode,
  ReadRequest,
  Xid,
} from '../../../lib/protocol/index.js';
import { RawClient, type RawConnectOptions } from '../../support/raw-client.js';
import { create, exists, OPEN } from '../../support/raw-requests.js';

const NO_NODE = -101;

/**
 * Whether the request stays unanswered while others are served. A request that is not held back
 * would settle in this time.
 */
const isHeldBack = async (work: Promise<unknown>, witness: RawClient): Promise<boolean> => {
  let settled = false;
  const settle = () => (settled = true);
  work.then(settle, settle);
  for (let i = 0; i < 20; i++) await witness.ping();
  return !settled;
};

describe('With an injected fault, the embedded server', () => {
  let server: EmbeddedZooKeeper;
  let client: RawClient;
  let witness: RawClient;

  const connect = (options: Partial<RawConnectOptions> = {}) =>
    RawClient.connect({ port: server.port, timeout: 20_000, ...options });
  const comeBack = ({ session: { sessionId, password } }: RawClient) =>
    connect({ sessionId, password: password! });

  beforeEach(async () => {
    server = await EmbeddedZooKeeper.start({ tickTime: 50, minSessionTimeout: 100 });
    [client, witness] = [await connect(), await connect({ timeout: 60_000 })];
  });
  afterEach(() => server.stop());

  describe('drops a reply', () => {
    test('once, with its connection, after the request was applied', async () => {
      await server.faults.dropReply({ op: 'create' });
      expect((await exists(client, '/a')).err).toBe(NO_NODE);
      await expect(create(client, '/a')).rejects.toThrow('closed the connection');
      expect((await exists(witness, '/a')).err).toBe(0);
      const back = await comeBack(client);
      expect((await create(back, '/b')).err).toBe(0);
    });

    test('to one session, although other sessions send the same request', async () => {
      await server.faults.dropReply({ op: 'create', session: client.sessionIdHex });
      expect((await create(witness, '/a')).err).toBe(0);
      await expect(create(client, '/b')).rejects.toThrow('closed the connection');
    });

    test('to the close of a session, which has ended nevertheless', async () => {
      await create(client, '/e', CreateFlag.ephemeral);
      await server.faults.dropReply({ op: 'closeSession' });
      await expect(client.closeSession()).rejects.toThrow('closed the connection');
      expect((await exists(witness, '/e')).err).toBe(NO_NODE);
    });

    test('to an auth request', async () => {
      await server.faults.dropReply({ op: 'auth' });
      const proof = { type: 0, scheme: 'digest', auth: Buffer.from('ben:secret') };
      const asked = client.request(OpCode.auth, AuthPacket, proof, undefined, Xid.auth);
      await expect(asked).rejects.toThrow('closed the connection');
    });

    test('unless the fault was undone', async () => {
      const undo = await server.faults.dropReply({ op: 'exists' });
      await undo();
      await undo();
      expect((await exists(client, '/')).err).toBe(0);
    });
  });

  test('refuses connections for a while, and keeps existing ones', async () => {
    const undo = await server.faults.refuseConnections();
    await expect(connect()).rejects.toThrow();
    expect((await client.ping()).err).toBe(0);
    await undo();
    expect((await (await connect()).ping()).err).toBe(0);
  });

  describe('delays replies', () => {
    test('in order, with events, to the selected session', async () => {
      await server.faults.delay(150, { session: client.sessionIdHex });
      const start = performance.now();
      const answers = Promise.all([
        exists(client, '/a', true),
        create(client, '/a'),
        exists(client, '/a'),
      ]);
      expect((await answers).map(({ err }) => err)).toEqual([NO_NODE, 0, 0]);
      expect(performance.now() - start).toBeGreaterThanOrEqual(150);
      expect(client.received).toEqual(['1', 'event:1:/a', '2', '3']);
    });

    test('until the fault is undone, and then sends them at once', async () => {
      const undo = await server.faults.delay(600_000);
      const answer = exists(client, '/');
      await undo();
      expect((await answer).err).toBe(0);
    });

    test('of any size', async () => {
      const data = Buffer.alloc(500_000, 'x');
      await create(witness, '/big', CreateFlag.persistent, data);
      await server.faults.delay(20);
      const asked = Array.from({ length: 20 }, () =>
        client.request(
          OpCode.getData,
          ReadRequest,
          { path: '/big', watch: false },
          GetDataResponse,
        ),
      );
      const small = Array.from({ length: 20 }, () => exists(client, '/big'));
      for (const { body } of await Promise.all(asked)) expect(body!.data).toHaveLength(500_000);
      for (const { err } of await Promise.all(small)) expect(err).toBe(0);
    });

    test('independently for each fault', async () => {
      const undo = await server.faults.delay(600_000);
      await server.faults.delay(20);
      const answer = exists(client, '/');
      await undo();
      expect((await answer).err).toBe(0);
    });
  });

  describe('is cut off', () => {
    test('from the requests of a client, until the cut is undone', async () => {
      const session = client.sessionIdHex;
      const restore = await server.faults.cut('requests', { session });
      const created = create(client, '/late');
      expect(await isHeldBack(created, witness)).toBe(true);
      expect((await exists(witness, '/late')).err).toBe(NO_NODE);
      await restore();
      expect((await created).err).toBe(0);
    });

    test('from the requests of a client, whose session expires and whose connection is closed', async () => {
      const unheard = await connect({ timeout: 1500 });
      await create(unheard, '/e', CreateFlag.ephemeral);
      await exists(witness, '/e', true);
      await server.faults.cut('requests', { session: unheard.sessionIdHex });
      const pings = setInterval(() => unheard.ping().catch(() => {}), 50);
      await witness.untilEvents(1);
      await unheard.closed;
      clearInterval(pings);
    });

    test('from sending replies: requests are applied, and answered in order after the cut', async () => {
      const restore = await server.faults.cut('replies', { session: client.sessionIdHex });
      const answers = Promise.all([create(client, '/a'), exists(client, '/a'), client.ping()]);
      expect(await isHeldBack(answers, witness)).toBe(true);
      expect((await exists(witness, '/a')).err).toBe(0);
      await restore();
      expect((await answers).map(({ err }) => err)).toEqual([0, 0, 0]);
    });

    test('in both directions: neither the expiry nor a new connection of the client gets through', async () => {
      const session = client.sessionIdHex;
      const restore = await server.faults.cut('both', { session });
      const back = comeBack(client);
      await server.expireSession(session);
      expect(await isHeldBack(Promise.race([client.closed, back]), witness)).toBe(true);
      await restore();
      await client.closed;
      expect((await back).session.sessionId).toBe(0n);
    });

    test('and keeps the session of a client that disconnects meanwhile', async () => {
      const restore = await server.faults.cut();
      client.socket.destroy();
      await restore();
      const back = await comeBack(client);
      expect(back.session.sessionId).toBe(client.session.sessionId);
    });
  });

  test('drops the connection of one session', async () => {
    await server.dropConnections(`0x${client.sessionIdHex}`);
    await client.closed;
    expect((await witness.ping()).err).toBe(0);
    await expect(server.dropConnections(client.sessionIdHex)).rejects.toThrow('no connection of');
  });

  describe('advances its clock, and deletes', () => {
    test('sessions whose timeout has passed, connected or not', async () => {
      await create(client, '/e', CreateFlag.ephemeral);
      await server.skipClock(10_000);
      expect((await client.ping()).err).toBe(0);
      await server.skipClock(20_100);
      await client.closed;
      expect((await exists(witness, '/e')).err).toBe(NO_NODE);
      expect((await witness.ping()).err).toBe(0);
    });

    test('nodes whose time to live has passed', async () => {
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

    test('and keeps the advanced clock over a restart', async () => {
      await server.skipClock(3_600_000);
      await server.restart();
      await create(await connect(), '/after');
      const { body } = await exists(await connect(), '/after');
      expect(body!.stat.mtime).toBeGreaterThan(Date.now() + 3_500_000);
    });
  });

  test('ends all faults at a restart, and an old undo function does not end new faults', async () => {
    const before = await server.faults.refuseConnections();
    await server.restart();
    expect((await (await connect()).ping()).err).toBe(0);
    await server.faults.refuseConnections();
    await before();
    await expect(connect()).rejects.toThrow();
    await server.stop();
    await before();
    await expect(server.faults.refuseConnections()).rejects.toThrow('it was stopped');
  });

  test('stops at once although replies are held back', async () => {
    await server.faults.cut();
    const lost = exists(client, '/').catch(() => 'lost');
    await sleep(0);
    await server.stop();
    expect(await lost).toBe('lost');
  });

  test.each<[string, (faults: EmbeddedZooKeeper) => Promise<unknown>, string]>([
    ['op', (s) => s.faults.dropReply({ op: 'mkdir' as 'create' }), 'op must be one of ZooKeeper'],
    ['delay', (s) => s.faults.delay(-1), 'delay must be between 0 and'],
    ['delay', (s) => s.faults.delay('1' as unknown as number), 'delay must be a whole number'],
    ['cut', (s) => s.faults.cut('left' as 'both'), 'cut must be "requests", "replies" or "both"'],
    ['session', (s) => s.faults.cut('both', { session: 'x' }), 'session id must be hexadecimal'],
    ['clock', (s) => s.skipClock(-1), 'skipClock must be between 0 and'],
    ['connection', (s) => s.dropConnections('x'), 'session id must be hexadecimal'],
  ])('rejects an invalid %s', async (_what, call, message) => {
    await expect(call(server)).rejects.toThrow(message);
  });
});
