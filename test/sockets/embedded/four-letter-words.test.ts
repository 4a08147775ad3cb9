import assert from 'node:assert/strict';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { EmbeddedZooKeeper } from 'nestjs-zookeeper/embedded';
import {
  AuthPacket,
  CreateFlag,
  CreateRequest,
  Empty,
  GetACLResponse,
  OpCode,
  PathRequest,
  Permission,
  SetDataRequest,
  WhoAmIResponse,
  Xid,
} from '../../../lib/protocol/index.js';
import { isReal } from '../../support/environment.js';
import { eventually } from '../../support/eventually.js';
import { RawClient } from '../../support/raw-client.js';
import { create, exists } from '../../support/raw-requests.js';
import { fourLetterWord, RealZooKeeper } from '../../support/real-zookeeper.js';

interface Server {
  readonly port: number;
}

/** @throws if the server has not counted all replies. It has not counted the reply to this request. */
async function assertRepliesAreCounted(port: number): Promise<void> {
  const answer = await fourLetterWord(port, 'srvr');
  const [received, sent] = ['Received', 'Sent'].map((name) =>
    Number(answer.match(`${name}: (.*)`)![1]),
  );
  assert.equal(received! - sent!, 1);
}

/** Replaces what differs from server to server and from time to time, and sorts what comes from hash tables. */
function comparable(answer: string, clients: readonly RawClient[]): string[] {
  let text = answer;
  for (const [i, { sessionIdHex, socket }] of clients.entries()) {
    text = text.replaceAll(`0x${sessionIdHex}`, `session ${i + 1}`);
    text = text.replaceAll(`:${socket.localPort}`, `:port ${i + 1}`);
  }
  const lines = text
    // The real server lists and counts ticks without sessions or connections too.
    .replace(/^0 expire at .*\n/gm, '')
    .replace(/(Session|Connections) Sets \(\d+\)/g, '$1 Sets (n)')
    .replace(/3\.8\.0-\S+, built on \d{4}(-\d\d){2} \d\d:\d\d UTC/, '3.8.0-x, built on a day')
    .replace(/expire at \w{3} \w{3} \d\d \d\d:\d\d:\d\d \w+ \d{4}:/g, 'expire at a time:')
    .replace(/127\.0\.0\.1:\d{4,}/g, '127.0.0.1:other port')
    .replace(/^Latency .*: [\d./]+$/m, 'Latency')
    .replace(/^Zxid: 0x[0-9a-f]+$/m, 'Zxid')
    .replace(/^(datadir|logdir)_size: \d+$/gm, '$1')
    .split('\n');
  const groups: string[] = [];
  for (const line of lines) {
    if (line.startsWith('\t')) groups.push(`${groups.pop()}${line}`);
    else groups.push(line);
  }
  return groups
    .flatMap((group) => {
      const [first, ...entries] = group.split('\t').sort();
      // Two sessions that were opened one after the other may expire at the same tick or at different ones.
      if (first!.endsWith(' expire at a time:')) return entries.map((entry) => `expires: ${entry}`);
      return [first, ...entries].join(' | ');
    })
    .sort();
}

describe('The embedded server answers four-letter words as ZooKeeper does:', () => {
  let servers: Server[];
  let clients: RawClient[][];
  let stop: () => Promise<unknown>;

  beforeAll(async () => {
    const embedded = await EmbeddedZooKeeper.start({ fourLetterWords: ['*'] });
    const real = isReal ? await RealZooKeeper.start() : undefined;
    stop = () => Promise.all([embedded.stop(), real?.dispose()]);
    servers = real ? [embedded, real] : [embedded];
    clients = await Promise.all(
      servers.map(async ({ port }) => {
        const one = await RawClient.connect({ port, timeout: 20_000 });
        const other = await RawClient.connect({ port, timeout: 20_000 });
        await create(one, '/one', CreateFlag.ephemeral);
        await create(one, '/two', CreateFlag.ephemeral);
        await create(other, '/three', CreateFlag.ephemeral);
        await exists(one, '/one', true);
        await exists(other, '/one', true);
        await exists(other, '/gone', true);
        // The real server counts a reply after it has sent it. It has also been asked whether it runs.
        await eventually(() => assertRepliesAreCounted(port));
        await fourLetterWord(port, 'srst');
        return [one, other];
      }),
    );
  });
  afterAll(() => stop());

  const same = async (question: (port: number) => Promise<string>) => {
    const [ours, theirs = ours] = await Promise.all(
      servers.map(async ({ port }, i) => comparable(await question(port), clients[i])),
    );
    expect(ours).toEqual(theirs);
    expect(ours).toMatchSnapshot();
  };

  test.each([
    ...['srvr', 'stat', 'ruok', 'isro', 'wchs', 'wchp', 'wchc', 'dirs', 'gtmk'],
    ...['srst', 'srvr after srst', 'crst', 'stat after crst', 'nope'],
  ])('%s', (words) => same((port) => fourLetterWord(port, words.slice(0, 4))));

  test('dump', () => same((port) => fourLetterWord(port, 'dump')));

  test('srvr, cons, mntr and conf report what differs from server to server', async () => {
    const { port } = servers[0]!;
    const [one] = clients[0]!;
    const zxid = (await one!.ping()).zxid.toString(16);
    expect(await fourLetterWord(port, 'srvr')).toContain(`Zxid: 0x${zxid}`);
    const connections = (await fourLetterWord(port, 'cons')).split('\n');
    const own = connections.find((line) => line.includes(one!.sessionIdHex));
    expect(own).toContain(`:${one!.socket.localPort}[1](`);
    expect(own).toMatch(/recved=(\d+),sent=\1,sid=0x[0-9a-f]+,est=\d{13},to=20000\)$/);
    const counts = (await fourLetterWord(port, 'mntr')).split('\n').map((l) => l.split('\t'));
    expect(Object.fromEntries(counts)).toMatchObject({
      zk_server_state: 'standalone',
      zk_znode_count: '8',
      zk_ephemerals_count: '3',
      zk_watch_count: '3',
      zk_global_sessions: '2',
    });
    expect(await fourLetterWord(port, 'conf')).toContain(`clientPort=${port}\ntickTime=500\n`);
  });

  test('stmk sets what gtmk reads, and needs an argument', async () => {
    const argument = Buffer.from('0000000000000102', 'hex');
    await same((port) => fourLetterWord(port, Buffer.concat([Buffer.from('stmk'), argument])));
    await same((port) => fourLetterWord(port, 'gtmk'));
    await same((port) => fourLetterWord(port, 'stmk'));
  });

  test('envi tells the version first, and has the real server’s names', async () => {
    const names = await Promise.all(
      servers.map(async ({ port }) => {
        const answer = await fourLetterWord(port, 'envi');
        expect(answer).toMatch(
          /^Environment:\nzookeeper\.version=3\.8\.0-\S+, built on \S+ \S+ UTC\n/,
        );
        return answer.match(/^[a-z.]+(?==)/gm)!;
      }),
    );
    expect(names[0]).toContain('java.version');
    for (const other of names) expect(other).toEqual(expect.arrayContaining(names[0]));
  });
});

/** The hash is that of `super:secret`. */
const SUPER_DIGEST = 'super:lK75jTNcA+U9vtVEw5vB51mj/w4=';

describe('The embedded server keeps to its configuration as ZooKeeper does:', () => {
  let servers: Server[];
  let stop: () => Promise<unknown>;

  beforeAll(async () => {
    const embedded = await EmbeddedZooKeeper.start({
      fourLetterWords: ['ruok'],
      maxClientCnxns: 3,
      superDigest: SUPER_DIGEST,
    });
    const config = { '4lw.commands.whitelist': 'ruok', maxClientCnxns: 3 };
    const jvm = [`-Dzookeeper.DigestAuthenticationProvider.superDigest=${SUPER_DIGEST}`];
    const real = isReal ? await RealZooKeeper.start({ config, jvm }) : undefined;
    stop = () => Promise.all([embedded.stop(), real?.dispose()]);
    servers = real ? [embedded, real] : [embedded];
  });
  afterAll(() => stop());

  const onEach = (work: (port: number) => Promise<void>) =>
    Promise.all(servers.map(({ port }) => work(port)));

  test('other four-letter words than srvr and those of the option are refused', () =>
    onEach(async (port) => {
      expect(await fourLetterWord(port, 'ruok')).toBe('imok');
      expect(await fourLetterWord(port, 'srvr')).toContain('Mode: standalone');
      for (const word of ['mntr', 'stmk']) {
        expect(await fourLetterWord(port, word)).toBe(
          `${word} is not executed because it is not in the whitelist.\n`,
        );
      }
    }));

  /** A server may count a connection for some time after its client has closed it. */
  const connect = (port: number) => vi.waitFor(() => RawClient.connect({ port }));

  test('one connection too many is closed, and there is room again when another has gone', () =>
    onEach(async (port) => {
      const clients = [await connect(port), await connect(port), await connect(port)];
      // The real server may reset the connection before its client knows that it is connected.
      await expect(RawClient.connect({ port })).rejects.toThrow(
        /closed the connection|connect|read/,
      );
      await clients.pop()!.closeSession();
      clients.push(await connect(port));
      for (const client of clients) await client.closeSession();
    }));

  test('the superuser passes every ACL, and its name is its own', () =>
    onEach(async (port) => {
      const [owner, root, other] = await Promise.all(
        ['owner:x', 'super:secret', 'super:wrong'].map(async (credentials) => {
          const client = await connect(port);
          const packet = { type: 0, scheme: 'digest', auth: Buffer.from(credentials) };
          await client.request(OpCode.auth, AuthPacket, packet, Empty, Xid.auth);
          return client;
        }),
      );
      const path = '/owned';
      const acl = [{ perms: Permission.read, scheme: 'auth', id: '' }];
      const request = { path, data: null, acl, flags: CreateFlag.ephemeral };
      await owner.request(OpCode.create, CreateRequest, request);
      const write = { path, data: null, version: -1 };
      expect((await owner.request(OpCode.setData, SetDataRequest, write)).err).toBe(-102);
      expect((await other.request(OpCode.setData, SetDataRequest, write)).err).toBe(-102);
      expect((await root.request(OpCode.setData, SetDataRequest, write)).err).toBe(0);
      const listed = await root.request(OpCode.getACL, PathRequest, { path }, GetACLResponse);
      expect(listed.body?.acl[0].id).toMatch(/^owner:.{28}$/);
      const mine = { path: '/mine', data: null, acl, flags: CreateFlag.ephemeral };
      await root.request(OpCode.create, CreateRequest, mine);
      const own = await root.request(OpCode.getACL, PathRequest, { path: '/mine' }, GetACLResponse);
      expect(own.body?.acl.map(({ id }) => id)).toEqual([SUPER_DIGEST]);
      const who = await root.request(OpCode.whoAmI, Empty, undefined, WhoAmIResponse);
      expect(who.body?.clientInfo.map(({ scheme, user }) => `${scheme} ${user}`).sort()).toEqual([
        'digest super',
        'ip 127.0.0.1',
        'super ',
      ]);
      for (const client of [owner, root, other]) await client.closeSession();
    }));
});
