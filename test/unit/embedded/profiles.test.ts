import { afterEach, describe, expect, test } from 'vitest';
import { resolveOptions } from '../../../lib/embedded/options.js';
import type { EmbeddedServerKind } from '../../../lib/embedded/profiles.js';
import { ZooKeeperServer } from '../../../lib/embedded/server.js';
import {
  AddWatchRequest,
  AuthPacket,
  type Codec,
  CreateFlag,
  CreateRequest,
  DeleteRequest,
  Empty,
  ErrorCode,
  EventType,
  GetACLResponse,
  GetChildrenResponse,
  GetDataResponse,
  OpCode,
  PathRequest,
  PathResponse,
  ReadRequest,
  SetDataRequest,
  Sync,
  type ValueOf,
  Xid,
} from '../../../lib/protocol/index.js';
import { MultiRequest, MultiResponse, steps } from '../../support/multi-records.js';
import { RawClient, type RawConnectOptions } from '../../support/raw-client.js';
import { create, exists, OPEN } from '../../support/raw-requests.js';
import { fourLetterWord } from '../../support/real-zookeeper.js';

const servers: ZooKeeperServer[] = [];
afterEach(async () => {
  for (const server of servers.splice(0)) await server.close();
});

async function start(kind: EmbeddedServerKind, Server = ZooKeeperServer): Promise<ZooKeeperServer> {
  const server = new Server(resolveOptions({ server: kind }));
  servers.push(server);
  await server.listen();
  return server;
}

async function connect(
  kind: EmbeddedServerKind,
  options: Omit<RawConnectOptions, 'port'> = {},
): Promise<[RawClient, ZooKeeperServer]> {
  const server = await start(kind);
  return [await RawClient.connect({ ...options, port: server.port }), server];
}

async function statOf(client: RawClient, path: string) {
  const { body } = await exists(client, path);
  return body!.stat;
}

function setData(client: RawClient, path: string) {
  const request = { path, data: Buffer.from('x'), version: -1 };
  return client.request(OpCode.setData, SetDataRequest, request);
}

function remove(client: RawClient, path: string) {
  return client.request(OpCode.delete, DeleteRequest, { path, version: -1 });
}

function read<T>(client: RawClient, type: number, path: string, watch = false, reply?: Codec<T>) {
  return client.request(type, ReadRequest, { path, watch }, reply);
}

const succeeds = (promise: Promise<unknown>) =>
  promise.then(
    () => true,
    () => false,
  );

describe('The stat of a parent', () => {
  test.each<[EmbeddedServerKind, Record<string, [cversion: number, pzxid: 'raised' | 'kept']>]>([
    ['zookeeper', { set: [1, 'kept'], delete: [2, 'raised'], end: [4, 'raised'] }],
    ['clickhouse-keeper', { set: [2, 'kept'], delete: [3, 'kept'], end: [5, 'kept'] }],
  ])('of %s after a change of a child: %j', async (kind, expected) => {
    const [client, server] = await connect(kind);
    const other = await RawClient.connect({ port: server.port });
    await create(client, '/p');
    await create(client, '/p/c');
    let { pzxid } = await statOf(client, '/p');
    const change = async (name: string, work: () => Promise<unknown>) => {
      await work();
      const stat = await statOf(client, '/p');
      expect([name, stat.cversion, stat.pzxid > pzxid ? 'raised' : 'kept']).toEqual([
        name,
        ...expected[name]!,
      ]);
      ({ pzxid } = stat);
    };
    await change('set', () => setData(client, '/p/c'));
    await change('delete', () => remove(client, '/p/c'));
    await create(other, '/p/e', CreateFlag.ephemeral);
    ({ pzxid } = await statOf(client, '/p'));
    await change('end', async () => server.expireSession(other.session.sessionId));
    // The sequence counts creations only.
    const { body } = await create(client, '/p/s-', CreateFlag.sequential);
    expect(body!.path).toBe('/p/s-0000000002');
  });

  test('of ClickHouse Keeper is restored by a multi that fails', async () => {
    const [client] = await connect('clickhouse-keeper');
    await create(client, '/p');
    await create(client, '/p/c');
    const before = await statOf(client, '/p');
    const failing = [steps.set('/p/c', 'x'), steps.delete('/none')];
    await client.request(OpCode.multi, MultiRequest, failing, MultiResponse);
    expect(await statOf(client, '/p')).toEqual(before);
    await setData(client, '/p/c');
    expect((await statOf(client, '/p')).cversion).toBe(before.cversion + 1);
  });
});

describe('Transaction ids', () => {
  test('start with the time in ZooKeeper, and with 1 in ClickHouse Keeper', async () => {
    const firstOf = async (kind: EmbeddedServerKind) => {
      const [client] = await connect(kind);
      return (await create(client, '/n')).zxid;
    };
    const before = Date.now() * 1024;
    const first = await firstOf('zookeeper');
    expect(first).toBeGreaterThan(before);
    expect(first).toBeLessThan(Date.now() * 1024 + 1024);
    // The first one has opened the session.
    expect(await firstOf('clickhouse-keeper')).toBe(2);
  });

  test.each<[EmbeddedServerKind, object]>([
    ['zookeeper', { read: 0, ping: 0, sync: 0, getAcl: 0, next: 1 }],
    ['clickhouse-keeper', { read: 0, ping: 1, sync: 2, getAcl: 2, next: 3 }],
  ])('of %s in the headers of replies, after that of a write: %j', async (kind, expected) => {
    const [client] = await connect(kind);
    const { zxid } = await create(client, '/n');
    const syncing = () => client.request(OpCode.sync, Sync, { path: '/' });
    const gettingAcl = () => client.request(OpCode.getACL, PathRequest, { path: '/n' });
    expect({
      read: (await exists(client, '/n')).zxid - zxid,
      ping: (await client.ping()).zxid - zxid,
      sync: (await syncing()).zxid - zxid,
      getAcl: (await gettingAcl()).zxid - zxid,
      next: (await create(client, '/m')).zxid - zxid,
    }).toEqual(expected);
    expect((await statOf(client, '/m')).czxid).toBe(
      (await statOf(client, '/n')).czxid + (expected as { next: number }).next,
    );
  });

  test.each<[EmbeddedServerKind, boolean]>([
    ['zookeeper', false],
    ['clickhouse-keeper', true],
  ])('of %s: a client that has seen a later one is served: %s', async (kind, isServed) => {
    const { port, store } = await start(kind);
    const seeing = (lastZxidSeen: number) => RawClient.connect({ port, lastZxidSeen });
    expect(await succeeds(seeing(store.lastZxid + 1000))).toBe(isServed);
    await seeing(store.lastZxid);
  });
});

describe('A session', () => {
  test.each<[EmbeddedServerKind, object]>([
    ['zookeeper', { isSecret: true, right: 'resumed', wrong: 'refused', isEndConfirmed: true }],
    ['clickhouse-keeper', { isSecret: false, right: 'new', wrong: 'new', isEndConfirmed: false }],
  ])('of %s after a reconnect with the right or a wrong password: %j', async (kind, expected) => {
    const [client, { port }] = await connect(kind);
    const { sessionId, password, readOnly, protocolVersion } = client.session;
    const isSecret = !Buffer.from(password!).equals(Buffer.alloc(16));
    expect(sessionId > 2n ** 32n).toBe(isSecret);
    // A server that has never heard of the flag leaves it out.
    expect([readOnly, protocolVersion]).toEqual([isSecret ? false : undefined, 0]);
    await create(client, '/e', CreateFlag.ephemeral);
    await client.drop();
    const outcome = async (secret: Uint8Array) => {
      const next = await RawClient.connect({ port, sessionId, password: secret });
      if (next.session.timeout <= 0) return 'refused';
      return next.session.sessionId === sessionId ? 'resumed' : 'new';
    };
    const [right, wrong] = [await outcome(password!), await outcome(Buffer.alloc(16, 7))];
    // The old session has not ended, also if its client can never have it again.
    const witness = await RawClient.connect({ port });
    expect((await statOf(witness, '/e')).ephemeralOwner).toBe(sessionId);
    const ending = witness.request(OpCode.closeSession, Empty, undefined);
    const isEndConfirmed = await succeeds(ending);
    await witness.closed;
    expect({ isSecret, right, wrong, isEndConfirmed }).toEqual(expected);
  });

  test('of ZooKeeper that has ended is refused, and the connection ends', async () => {
    const [client, server] = await connect('zookeeper');
    const { sessionId, password } = client.session;
    server.expireSession(sessionId);
    await client.closed;
    const again = await RawClient.connect({ port: server.port, sessionId, password: password! });
    expect(again.session).toMatchObject({ protocolVersion: 0, timeout: 0, sessionId: 0n });
    await again.closed;
  });

  test('is refused by ClickHouse Keeper without a leader, with a positive timeout', async () => {
    const { port } = await start(
      'clickhouse-keeper',
      class extends ZooKeeperServer {
        readonly hasLeader = false;
      },
    );
    const client = await RawClient.connect({ port, sessionId: 7n, password: Buffer.alloc(16) });
    expect(client.session).toMatchObject({ protocolVersion: 42, timeout: 10_000, sessionId: 0n });
    await client.closed;
  });

  test('has the id of its transaction, so that no restart uses an id twice', async () => {
    const [{ session }, server] = await connect('clickhouse-keeper');
    expect(session.sessionId).toBe(BigInt(server.store.lastZxid));
  });
});

describe('A request that the server does not know', () => {
  const watch = { path: '/', mode: 0 };
  const container = { path: '/c', data: null, acl: OPEN, flags: CreateFlag.container };
  const operations = [
    steps.create('/n'),
    steps.create('/c', { type: OpCode.createContainer, flags: CreateFlag.container }),
  ];
  test.each<[string, (client: RawClient) => Promise<{ err: number }>]>([
    ['addWatch', (client) => client.request(OpCode.addWatch, AddWatchRequest, watch)],
    ['createContainer', (one) => one.request(OpCode.createContainer, CreateRequest, container)],
    ['a multi with it', (client) => client.request(OpCode.multi, MultiRequest, operations)],
  ])('ends the connection to ClickHouse Keeper: %s', async (_, send) => {
    const [zookeeper] = await connect('zookeeper');
    expect((await send(zookeeper)).err).toBe(0);
    const [clickhouse, { store }] = await connect('clickhouse-keeper');
    await expect(send(clickhouse)).rejects.toThrow('the server closed the connection');
    await clickhouse.closed;
    // It did not wait for the end of the session.
    expect(store.sessions.get(clickhouse.session.sessionId)).toBeDefined();
  });
});

describe('A watch', () => {
  test.each<[EmbeddedServerKind, object]>([
    ['zookeeper', { sequential: '/s-0000000000', deletions: 1, secret: 0 }],
    ['clickhouse-keeper', { sequential: '/s-', deletions: 2, secret: 1 }],
  ])(
    'of %s: events of a sequential node, of a deletion and of a node that its owner may not read: %j',
    async (kind, expected) => {
      const [client, { port }] = await connect(kind);
      const eventsAfter = async (work: () => Promise<unknown>) => {
        const before = client.events.length;
        await work();
        await client.ping();
        return client.events.slice(before);
      };
      for (const path of ['/s-', '/s-0000000000', '/secret']) await exists(client, path, true);
      const sequential = await eventsAfter(() => create(client, '/s-', CreateFlag.sequential));
      await create(client, '/n');
      await read(client, OpCode.getData, '/n', true);
      await read(client, OpCode.getChildren, '/n', true);
      const deletions = await eventsAfter(() => remove(client, '/n'));
      const other = await RawClient.connect({ port });
      await authenticate(other, 'u:p');
      const ownOnly = [{ perms: 31, scheme: 'auth', id: '' }];
      const secret = await eventsAfter(() => createWith(other, '/secret', ownOnly));
      expect({
        sequential: sequential.map(({ path }) => path).join(),
        deletions: deletions.filter(({ type }) => type === EventType.deleted).length,
        secret: secret.length,
      }).toEqual(expected);
    },
  );
});

function authenticate(client: RawClient, credentials: string, scheme = 'digest') {
  const packet = { type: 0, scheme, auth: Buffer.from(credentials) };
  return client.request(OpCode.auth, AuthPacket, packet, undefined, Xid.auth);
}

function createWith(client: RawClient, path: string, acl: ValueOf<typeof CreateRequest>['acl']) {
  const request = { path, data: null, acl, flags: CreateFlag.persistent };
  return client.request(OpCode.create, CreateRequest, request, PathResponse);
}

describe('An ACL', () => {
  test.each<[EmbeddedServerKind, number]>([
    ['zookeeper', ErrorCode.invalidAcl],
    ['clickhouse-keeper', 0],
  ])(
    'of %s without entries (error %i), or in the way of a multi; only ZooKeeper disconnects after wrong credentials',
    async (kind, empty) => {
      const [client] = await connect(kind);
      expect((await createWith(client, '/empty', [])).err).toBe(empty);
      if (empty === 0) expect((await read(client, OpCode.getData, '/empty')).err).toBe(0);
      await createWith(client, '/p', [{ perms: 1, scheme: 'world', id: 'anyone' }]);
      const operations = [steps.create('/n'), steps.create('/p/c')];
      const multi = await client.request(OpCode.multi, MultiRequest, operations, MultiResponse);
      expect(multi.body?.results.map((result) => result.err)).toEqual([0, ErrorCode.noAuth]);
      expect((await exists(client, '/n')).err).toBe(ErrorCode.noNode);
      expect((await authenticate(client, 'u:p', 'plain')).err).toBe(ErrorCode.authFailed);
      expect(await succeeds(exists(client, '/'))).toBe(kind !== 'zookeeper');
    },
  );

  test('of ClickHouse Keeper loses entries of other schemes than world and digest', async () => {
    const [client] = await connect('clickhouse-keeper');
    const sasl = { perms: 31, scheme: 'sasl', id: 'app' };
    expect((await createWith(client, '/none', [sasl])).err).toBe(ErrorCode.invalidAcl);
    expect((await createWith(client, '/n', [sasl, ...OPEN])).err).toBe(0);
    const request = { path: '/n' };
    const { body } = await client.request(OpCode.getACL, PathRequest, request, GetACLResponse);
    expect(body!.acl).toEqual(OPEN);
  });

  test.each<[EmbeddedServerKind, object]>([
    ['zookeeper', { ip: 0, none: 0, two: 0, colons: 0, auth: ErrorCode.invalidAcl }],
    [
      'clickhouse-keeper',
      {
        ...{ ip: ErrorCode.authFailed, none: ErrorCode.authFailed, two: ErrorCode.authFailed },
        ...{ colons: ErrorCode.invalidAcl, auth: 0 },
      },
    ],
  ])('of %s and its credentials have digests with one colon: %j', async (kind, expected) => {
    const [client] = await connect(kind);
    const ip = (await authenticate(client, '', 'ip')).err;
    const auth = [{ perms: 31, scheme: 'auth', id: '' }, ...OPEN];
    expect({
      ip,
      auth: (await createWith(client, '/auth', auth)).err,
      colons: (await createWith(client, '/d', [{ perms: 31, scheme: 'digest', id: 'u:h:' }])).err,
      none: (await authenticate(client, 'user')).err,
      two: (await authenticate(client, 'user:pass:word')).err,
    }).toEqual(expected);
  });
});

describe('Other servers are recognised', () => {
  test.each<[EmbeddedServerKind, string[]]>([
    ['zookeeper', ['/zookeeper', '/zookeeper/config', '/zookeeper/quota']],
    ['clickhouse-keeper', ['/keeper', '/keeper/api_version', '/keeper/feature_flags']],
  ])('%s by its nodes: %j', async (kind, paths) => {
    const [client] = await connect(kind);
    const listed = async (path: string) => {
      const reply = await read(client, OpCode.getChildren, path, false, GetChildrenResponse);
      return reply.body!.children;
    };
    const [root] = await listed('/');
    const below = await listed(`/${root}`);
    expect([`/${root}`, ...below.map((name) => `/${root}/${name}`)].toSorted()).toEqual(paths);
    expect((await remove(client, paths.at(-1)!)).err).toBe(ErrorCode.badArguments);
  });

  test('ClickHouse Keeper by the bits of its features', async () => {
    const [client] = await connect('clickhouse-keeper');
    const data = async (path: string) => {
      const codec = GetDataResponse as Codec<ValueOf<typeof GetDataResponse>>;
      const reply = await read(client, OpCode.getData, path, false, codec);
      return Buffer.from(reply.body!.data!);
    };
    expect((await data('/keeper/api_version')).toString()).toBe('3');
    // The second feature is multi_read.
    expect([...(await data('/keeper/feature_flags'))]).toEqual([0x40, 0]);
  });

  test.each<[EmbeddedServerKind, RegExp, ...string[]]>([
    [
      'zookeeper',
      /^Zookeeper version: 3\.8[^]*^Zxid: 0x[0-9a-f]+$/m,
      ...['is not executed because', 'is not executed because', ''],
    ],
    [
      'clickhouse-keeper',
      /^ClickHouse Keeper version: v25\.8[^]*^Zxid: 0x1$/m,
      ...['zk_key_arena_size', '', 'persistent_watches\t0'],
    ],
  ])('%s by srvr, mntr, wchc and ftfl', async (kind, srvr, ...others) => {
    const [, { port }] = await connect(kind);
    expect(await fourLetterWord(port, 'srvr')).toMatch(srvr);
    for (const [index, word] of ['mntr', 'wchc', 'ftfl'].entries()) {
      // An unknown word is the start of a malformed frame.
      const answer = await fourLetterWord(port, word).catch(() => '');
      if (others[index] === '') expect(answer, word).toBe('');
      else expect(answer, word).toContain(others[index]);
    }
  });
});
