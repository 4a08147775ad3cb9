import { expect, test } from 'vitest';
import {
  type NodeError,
  type Session,
  UnsafeServerError,
  ZkClient,
} from '../../../lib/client/index.js';
import type { ZkClientOptions } from '../../../lib/client/options.js';
import { CreateFlag, ErrorCode, OpCode, type Writer } from '../../../lib/protocol/index.js';
import {
  type Asked,
  type Peer,
  type Script,
  ScriptedServer,
} from '../../support/scripted-server.js';

/** Greets as ClickHouse Keeper and RaftKeeper do: with a small session id, zeros and no byte for `readOnly`. */
const asKeeper = (peer: Peer) =>
  peer.greet({ sessionId: 7n, password: Buffer.alloc(16), readOnly: undefined });

function writeResult(type: number, to: Writer): void {
  if (type === OpCode.create) to.text('/a');
  // A stat of zeros.
  if (type === OpCode.exists) for (let field = 0; field < 17; field++) to.int(0);
}

/** The script of a server without passwords, with or without the znode of ClickHouse Keeper's feature flags. */
const keeper = (hasFeatureFlags: boolean): Script => ({
  onConnect: asKeeper,
  onRequest(peer, { xid, type }) {
    if (type === OpCode.exists && !hasFeatureFlags) peer.refuse(xid, ErrorCode.noNode);
    else peer.reply(xid, (to) => writeResult(type, to));
  },
});

const clientOf = (server: ScriptedServer, options: Partial<ZkClientOptions> = {}) =>
  new ZkClient({
    connectString: `127.0.0.1:${server.port}`,
    retry: { type: 'none' },
    ...options,
  });

async function connected(client: ZkClient): Promise<Session> {
  await client.connect();
  return client.session();
}

const requestsOf = ({ asked }: Peer) => asked.map(({ type }: Asked) => type);

test.each<[string, Script, number[]]>([
  // By the password of the session, without a request.
  ['zookeeper', { onRequest: (peer, { xid }) => peer.reply(xid) }, [OpCode.sync]],
  [
    'unknown',
    {
      onConnect: (peer) => peer.greet({ password: Buffer.alloc(16, 1) }),
      onRequest: (peer, { xid }) => peer.reply(xid),
    },
    [OpCode.sync],
  ],
  ['clickhouse-keeper', keeper(true), [OpCode.exists, OpCode.sync]],
])('a server is recognized as %s', async (kind, script, requests) => {
  await using server = await ScriptedServer.start(script);
  const client = clientOf(server);
  expect((await connected(client)).serverKind).toBe(kind);
  expect(requestsOf(server.peers[0]!)).toEqual(requests);
  await client.close();
});

test('RaftKeeper is refused, and the session on it is closed, without allowUnsafeFencing', async () => {
  await using server = await ScriptedServer.start(keeper(false));
  const client = clientOf(server);
  const refused = await client.connect().catch((error: unknown) => error);
  expect(refused).toBeInstanceOf(UnsafeServerError);
  expect(refused).toMatchObject({
    code: 'UNSAFE_SERVER',
    message: expect.stringContaining(
      `127.0.0.1:${server.port} is RaftKeeper, whose transaction ids may fall, or ClickHouse Keeper before 23.6`,
    ),
  });
  await expect
    .poll(() => requestsOf(server.peers[0]!))
    .toEqual([OpCode.exists, OpCode.closeSession]);
  await client.close();
  const unsafe = clientOf(server, { allowUnsafeFencing: true });
  expect((await connected(unsafe)).serverKind).toBe('raftkeeper');
  await unsafe.close();
});

test('a connection is closed if the server does not reply to the request that identifies it', async () => {
  await using server = await ScriptedServer.start({ onConnect: asKeeper });
  const client = clientOf(server, { connectTimeout: 50 });
  await expect(client.connect()).rejects.toThrow('no reply within 50 ms');
  await server.peers[0]!.closed;
  await client.close();
});

test('ClickHouse Keeper gets no request that it may not know', async () => {
  await using server = await ScriptedServer.start(keeper(true));
  const client = clientOf(server);
  await client.connect();
  const unimplemented = async (request: Promise<unknown>): Promise<NodeError> => {
    const error = await request.then(() => 'no error').catch((e: unknown) => e);
    expect(error).toMatchObject({ code: 'UNIMPLEMENTED' });
    return error as NodeError;
  };
  for (const [what, request] of [
    ['TTLs', client.create('/a', '', { ttl: 1000 })],
    ['containers', client.create('/a', '', { mode: 'container' })],
    ['persistent watches', client.addWatch('/a', () => {})],
  ] as const) {
    expect((await unimplemented(request)).message).toContain(`${what} need Apache ZooKeeper`);
  }
  const inTransaction = client.transaction([{ check: '/b' }, { create: '/a', ttl: 1000 }]);
  expect(await unimplemented(inTransaction)).toMatchObject({ index: 1, path: '/a' });
  const { peers } = server;
  expect(requestsOf(peers[0]!)).toEqual([OpCode.exists, OpCode.sync]);

  // In place of a container it gets a persistent znode, and a watch that is not used any more is kept.
  await client.ensureContainers('/a');
  const { watch: unused } = await client.watchExists('/a');
  unused.remove();
  await client.sync('/');
  expect(requestsOf(peers[0]!).slice(2)).toEqual([OpCode.create, OpCode.exists, OpCode.sync]);
  const { from } = peers[0]!.asked[2]!;
  expect([from.text(), from.bytes()?.length]).toEqual(['/a', 0]);
  from.vector(() => [from.int(), from.text(), from.text()]);
  expect(from.int()).toBe(CreateFlag.persistent);
  await client.close();
});

test('a session that ClickHouse Keeper makes in place of the requested one is closed', async () => {
  let sessions = 0n;
  await using server = await ScriptedServer.start({
    ...keeper(true),
    onConnect: (peer) => peer.greet({ sessionId: ++sessions, password: Buffer.alloc(16) }),
  });
  const client = clientOf(server);
  const first = await connected(client);
  server.peers[0]!.socket.destroy();
  await expect.poll(() => first.alive).toBe(false);
  await expect.poll(() => client.connected).toBe(true);
  expect(server.peers).toHaveLength(3);
  expect(requestsOf(server.peers[1]!)).toEqual([OpCode.closeSession]);
  await client.close();
});

test('a session of ClickHouse Keeper with the same id as the last one is another session', async () => {
  await using server = await ScriptedServer.start(keeper(true));
  const client = clientOf(server);
  const first = await connected(client);
  server.peers[0]!.socket.destroy();
  await expect.poll(() => first.alive).toBe(false);
  await expect.poll(() => client.connected).toBe(true);
  expect(await client.session()).not.toBe(first);
  await client.close();
});

test('a server that refuses connections is left for another one', async () => {
  let connections = 0;
  await using server = await ScriptedServer.start({
    onConnect: (peer) => peer.greet(connections++ === 0 ? { protocolVersion: 42 } : {}),
    onRequest: (peer, { xid }) => peer.reply(xid),
  });
  const client = clientOf(server, { retry: { type: 'forever', delay: 10 } });
  await client.connect();
  expect(connections).toBe(2);
  await client.close();
});
