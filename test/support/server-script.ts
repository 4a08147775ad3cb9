import { deepStrictEqual, rejects } from 'node:assert';
import {
  type Acl,
  CreateFlag,
  MAX_FRAME_LENGTH,
  OpCode,
  Permission,
} from '../../lib/protocol/index.js';
import { steps } from './multi-records.js';
import { OPEN } from './raw-requests.js';
import type { RecordedClient } from './recorded-client.js';
import type { Recorder } from './server-recorder.js';

export type Scenario = (server: Recorder) => Promise<void>;

const { ephemeral, sequential, ephemeralSequential, container, ttl, ttlSequential } = CreateFlag;
const NO_NODE = -101;
const NO_AUTH = -102;
const BAD_VERSION = -103;
const NO_CHILDREN_FOR_EPHEMERALS = -108;
const NODE_EXISTS = -110;
const NOT_EMPTY = -111;
const INVALID_ACL = -114;
const AUTH_FAILED = -115;
const BAD_ARGUMENTS = -8;
const MARSHALLING = -5;

const from = (id: string): Acl[] => [{ perms: Permission.all, scheme: 'ip', id }];

/** Operations that every ZooKeeper 3.8 answers alike, grouped by subject. */
export const scenarios: Record<string, Scenario> = {
  'creates nodes and counts their children': async (server) => {
    const zk = await server.connect('a');
    await zk.exists('/');
    await zk.create('/p');
    await zk.create('/p/a', { data: '' });
    await zk.create('/p/b', { data: null });
    await zk.get('/p/a');
    await zk.get('/p/b');
    await zk.create('/p/e', { flags: ephemeral });
    await zk.create('/p/a/deep', { op: OpCode.create2 });
    await zk.children2('/p');
    await zk.children('/p');
    for (const path of ['/p', '/p/a', '/p/e', '/']) await zk.exists(path);
    await zk.create('/p', {}, NODE_EXISTS);
    await zk.create('/', {}, NODE_EXISTS);
    await zk.create('/q/a', {}, NO_NODE);
    await zk.create('/p/e/x', {}, NO_CHILDREN_FOR_EPHEMERALS);
    await zk.exists('/p');
  },

  'numbers sequential nodes by the creates under their parent': async (server) => {
    const zk = await server.connect('a');
    await zk.createAll('/s', '/s/plain');
    const first = await zk.create('/s/n-', { flags: sequential });
    await zk.delete(first);
    await zk.create('/s/n-', { flags: ephemeralSequential });
    await zk.create('/s/n-', { flags: ephemeralSequential });
    await zk.create('/s/plain', {}, NODE_EXISTS);
    await zk.delete('/s/plain');
    await zk.create('/s/', { flags: sequential });
    await zk.create('/s/ttl-', { op: OpCode.createTTL, flags: ttlSequential, ttl: 3_600_000 });
    await zk.create('/s/c-', { op: OpCode.createContainer, flags: sequential });
    await zk.create('/s-', { flags: sequential });
    await zk.exists('/s');
    await zk.children2('/s');
  },

  'lists children by the hashes of their names': async (server) => {
    const zk = await server.connect('a');
    await zk.create('/h');
    for (let i = 0; i < 20; i++) await zk.create('/h/lock-', { flags: sequential });
    for (let i = 0; i < 15; i++) await zk.delete(`/h/lock-${String(i).padStart(10, '0')}`);
    await zk.create('/h/é漢');
    const body = await zk.children('/h');
    server.note('order', body?.children);
  },

  'rejects invalid paths, flags and times to live': async (server) => {
    const zk = await server.connect('a');
    await zk.create('/v');
    const wrong = [
      '',
      'v',
      '/v/',
      '/v/.',
      '/v/..',
      '/v/a\u0001',
      '/v/\ud83d\ude00',
      '/v/\uf8ff',
      '/v/a\0',
    ];
    for (const path of wrong) await zk.create(path, {}, BAD_ARGUMENTS);
    for (const path of ['/v//x', '/v/../x', '/v/./x']) await zk.create(path, {}, NO_NODE);
    await zk.create('v/x', {}, NO_NODE);
    for (const path of ['/v/...', '/v/.a', '/v/ü\u4e2d', '/v/a b', '/v/..a']) await zk.create(path);
    for (const flags of [5, 6, 7, -1]) await zk.create('/v/x', { flags }, BAD_ARGUMENTS);
    for (const lifetime of [0, 2 ** 40, 2 ** 41]) {
      await zk.create('/v/x', { op: OpCode.createTTL, flags: ttl, ttl: lifetime }, BAD_ARGUMENTS);
    }
    await zk.create('/v/x', { op: OpCode.createTTL, flags: 0, ttl: 5 }, BAD_ARGUMENTS);
    for (const flags of [ttl, ttlSequential, 7]) {
      await zk.create('/v/x', { op: OpCode.createContainer, flags }, BAD_ARGUMENTS);
      await zk.create('/v/x', { op: OpCode.create2, flags }, BAD_ARGUMENTS);
    }
    await zk.create('/v/x', { op: OpCode.createTTL, flags: ttl, ttl: 2 ** 40 - 1 });
    await zk.create('/v/flag4', { flags: container });
    await zk.create('/v/under', { op: OpCode.createContainer, flags: ephemeral });
    await zk.create('/v/under/x');
    await zk.exists('/v/under');
    for (const path of ['', 'v', '/v/', '/v//x', '/nowhere/']) {
      await zk.exists(path, false, path === '' ? 0 : NO_NODE);
      await zk.get(path, false, path === '' ? 0 : NO_NODE);
      await zk.set(path, 'x', -1, path === '/nowhere' ? NO_NODE : BAD_ARGUMENTS);
      await zk.delete(path, -1, path.startsWith('/') ? NO_NODE : BAD_ARGUMENTS);
    }
    await zk.exists('/v\0', false, BAD_ARGUMENTS);
    await zk.get('/v\0', false, NO_NODE);
  },

  'keeps versions of data and of children': async (server) => {
    const zk = await server.connect('a');
    await zk.create('/d');
    await zk.set('/d', 'one');
    await zk.set('/d', 'two', 1);
    await zk.set('/d', 'x', 1, BAD_VERSION);
    await zk.set('/d', null, 2);
    await zk.get('/d');
    await zk.set('/d', '', 3);
    await zk.set('/gone', 'x', -1, NO_NODE);
    await zk.set('/d', Buffer.alloc(1_000_000, 7));
    await zk.get('/d');
    await zk.create('/d/c');
    await zk.delete('/d', -1, NOT_EMPTY);
    await zk.delete('/d', 3, BAD_VERSION);
    await zk.delete('/d/c', 0);
    await zk.delete('/d/c', -1, NO_NODE);
    await zk.exists('/d');
    await zk.delete('/d', 5);
    await zk.get('/d', false, NO_NODE);
    await zk.children2('/d', false, NO_NODE);
    await zk.children('/d', false, NO_NODE);
    await zk.getAcl('/d', NO_NODE);
  },

  'has the system nodes and protects them': async (server) => {
    const zk = await server.connect('a');
    for (const path of ['/zookeeper', '/zookeeper/quota', '/zookeeper/config']) {
      await zk.get(path);
      await zk.getAcl(path);
      await zk.delete(path, -1, BAD_ARGUMENTS);
    }
    await zk.delete('/', -1, BAD_ARGUMENTS);
    await zk.children2('/zookeeper');
    await zk.getAcl('/');
    await zk.set('/zookeeper/config', 'x', -1, NO_AUTH);
    await zk.send(OpCode.reconfig, new Uint8Array(20), -123);
    await zk.sync('/');
    await zk.sync('/nowhere');
    await zk.ping();
  },

  'allows the usual operations on the root and the system nodes': async (server) => {
    const zk = await server.connect('a');
    await zk.get('/', true);
    await zk.children('/', true);
    await zk.exists('/zookeeper/quota/x', true, NO_NODE);
    await zk.set('/', 'root');
    await zk.set('/', '', 7, BAD_VERSION);
    await zk.createAll('/zookeeper/quota/x', '/zookeeper/x');
    await zk.create('/zookeeper/config/x', {}, NO_AUTH);
    await zk.set('/zookeeper', 'x', 7, BAD_VERSION);
    await zk.setAcl('/zookeeper/config', OPEN, -1, NO_AUTH);
    await zk.setAcl('/', OPEN, 7, BAD_VERSION);
    await zk.delete('/zookeeper/x');
    await zk.delete('/zookeeper/quota/x');
    await zk.create('/by-root');
    await zk.delete('/by-root');
    await zk.events(3);
    for (const path of ['/', '/zookeeper', '/zookeeper/quota']) await zk.get(path);
  },

  'enforces ACLs': async (server) => {
    const owner = await server.connect('owner');
    const other = await server.connect('other');
    const auth: Acl[] = [{ perms: Permission.all, scheme: 'auth', id: '' }];
    await owner.create('/x', { acl: auth }, INVALID_ACL);
    await owner.auth('ben:secret');
    await owner.auth('ben:secret');
    await owner.create('/x', { acl: auth });
    await owner.getAcl('/x');
    await other.getAcl('/x', NO_AUTH);
    await other.get('/x', false, NO_AUTH);
    await other.exists('/x');
    await other.children('/x', false, NO_AUTH);
    await other.children2('/x', false, NO_AUTH);
    await other.set('/x', 'y', -1, NO_AUTH);
    await other.create('/x/y', {}, NO_AUTH);
    await other.create('/x/y/z', {}, NO_NODE);
    await other.setAcl('/x', OPEN, -1, NO_AUTH);
    await owner.create('/x/y');
    await other.delete('/x/y', -1, NO_AUTH);
    await other.auth('ben:wrong');
    await other.get('/x', false, NO_AUTH);
    await other.auth('ben:secret');
    await other.get('/x');
    await owner.auth('eve:two');
    await owner.setAcl('/x', auth, 0);
    await owner.setAcl('/x', auth, 0, BAD_VERSION);
    await owner.exists('/x');
    const readable: Acl = { perms: Permission.read, scheme: 'world', id: 'anyone' };
    await owner.setAcl('/x', [{ ...auth[0], perms: 30 }, readable, readable]);
    const third = await server.connect('third');
    await third.getAcl('/x');
    await third.get('/x');
    await third.delete('/x/y', -1, NO_AUTH);
    await owner.setAcl('/x', [{ perms: Permission.write, scheme: 'world', id: 'anyone' }]);
    await third.getAcl('/x', NO_AUTH);
    await third.set('/x', 'z');
  },

  'matches addresses, and rejects ACLs that it cannot check': async (server) => {
    const zk = await server.connect('a');
    for (const [i, id] of ['127.0.0.1', '127.0.0.0/8', '127.0.0.1/32', '0.0.0.0/0'].entries()) {
      await zk.create(`/ip${i}`, { acl: from(id) });
      await zk.get(`/ip${i}`);
    }
    await zk.create('/far', { acl: from('10.0.0.0/8') });
    await zk.get('/far', false, NO_AUTH);
    const refused: Acl[][] = [
      [],
      from('10.0.0.0/33'),
      from('nonsense'),
      from('256.0.0.1'),
      [{ perms: 31, scheme: 'world', id: 'me' }],
      [{ perms: 31, scheme: 'digest', id: 'nohash' }],
      [{ perms: 31, scheme: 'digest', id: 'a:' }],
      [{ perms: 31, scheme: 'digest', id: 'a:b:c' }],
      [{ perms: 31, scheme: 'sms', id: 'x' }],
      [...OPEN, { perms: 31, scheme: 'sms', id: 'x' }],
    ];
    for (const acl of refused) await zk.create('/no', { acl }, INVALID_ACL);
    for (const acl of refused) await zk.setAcl('/ip0', acl, -1, INVALID_ACL);
    await zk.create('/ok', { acl: [{ perms: 31, scheme: 'digest', id: ':b' }] });
    await zk.auth('x', 'ip');
    const stranger = await server.connect('stranger');
    await stranger.auth('x', 'sms', AUTH_FAILED);
    await stranger.closed();
  },

  'answers requests of one write in order': async (server) => {
    const zk = await server.connect('a');
    await zk.create('/pipe');
    await Promise.all([
      zk.create('/pipe/n-', { flags: ephemeralSequential }),
      zk.children2('/pipe', true),
      zk.create('/pipe/n-', { flags: ephemeralSequential }),
      zk.children2('/pipe'),
      zk.delete('/pipe/n-0000000000'),
      zk.create('/pipe/gone/x', {}, NO_NODE),
      zk.exists('/pipe/n-0000000001', true),
      zk.ping(),
      zk.set('/pipe/n-0000000001', 'x'),
      zk.get('/pipe'),
    ]);
    await zk.events(2);
  },

  'accepts a frame of the maximum size, and closes the connection for a larger one': async (
    server,
  ) => {
    const zk = await server.connect('a');
    await zk.create('/large', { data: '', flags: ephemeral });
    const around = 8 + 4 + '/large'.length + 4 + 4;
    await zk.set('/large', Buffer.alloc(MAX_FRAME_LENGTH - around, 7));
    await zk.exists('/large');
    const other = await server.connect('b');
    const tooMuch = other.set('/large', Buffer.alloc(MAX_FRAME_LENGTH - around + 1));
    await rejects(tooMuch, /the server closed the connection/);
    await other.closed();
    const third = await server.connect('c');
    const tooLong = third.exists(`/${'x'.repeat(MAX_FRAME_LENGTH)}`);
    await rejects(tooLong, /the server closed the connection/);
    await third.closed();
    await zk.exists('/large');
  },

  'closes the connection on an unknown request': async (server) => {
    const zk = await server.connect('a');
    await zk.create('/here', { flags: ephemeral });
    await zk.send(77, new Uint8Array(4), -6);
    await zk.closed();
    const again = await server.connect('again', {
      sessionId: zk.raw.session.sessionId,
      password: zk.raw.session.password!,
    });
    await again.exists('/here');
    const truncated = await server.connect('truncated');
    await truncated.send(OpCode.create, new Uint8Array(2), -5);
    await again.ping();
  },
};

/**
 * Results of a failed multi: an operation that was rolled back, and one after the failed operation.
 */
const UNDONE = 0;
const UNTRIED = -2;

/** Reads the whole tree of a script. */
async function recordTree(zk: RecordedClient, path: string): Promise<void> {
  await zk.get(path);
  for (const name of await zk.children2(path)) await recordTree(zk, `${path}/${name}`);
}

/** Scripts for multi and multiRead. */
export const multiScenarios: Record<string, Scenario> = {
  'applies several operations at once': async (server) => {
    const zk = await server.connect('a');
    await zk.createAll('/m1-m', '/m1-m/old');
    await zk.multi([
      steps.create('/m1-m/a'),
      steps.create('/m1-m/b', { type: OpCode.create2 }),
      steps.create('/m1-m/a/deep', { data: null }),
      steps.set('/m1-m/a', 'x', 0),
      steps.set('/m1-m/a', 'y', 1),
      steps.check('/m1-m/a', 2),
      steps.create('/m1-m/n-', { flags: sequential }),
      steps.create('/m1-m/n-', { flags: ephemeralSequential }),
      steps.create('/m1-m/e', { flags: ephemeral }),
      steps.delete('/m1-m/old', 0),
      steps.create('/m1-m/old', { data: 'again' }),
      steps.delete('/m1-m/b'),
      steps.create('/m1-m/c', { flags: container }),
      steps.create('/m1-m/c2', { flags: container, type: OpCode.createContainer }),
      steps.create('/m1-m/plain', { type: OpCode.createContainer }),
      steps.createTtl('/m1-m/t', 3_600_000),
      steps.createTtl('/m1-m/t0', 3_600_000, 0),
    ]);
    await recordTree(zk, '/m1-m');
    await zk.multi([]);
    await zk.create('/m1-m/n-', { flags: sequential });
    await zk.create('/m1-m/t/x');
    await zk.ping();
  },

  'rolls back all operations if one fails': async (server) => {
    const zk = await server.connect('a');
    await zk.createAll('/m2-m', '/m2-m/kept', '/m2-m/kept/child');
    await zk.create('/m2-m/e', { flags: ephemeral });
    const before = [
      steps.create('/m2-m/a', { flags: ephemeral }),
      steps.create('/m2-m/n-', { flags: sequential }),
      steps.create('/m2-m/c', { flags: container }),
      steps.create('/m2-m/a2'),
      steps.set('/m2-m', 'changed'),
      steps.delete('/m2-m/kept/child'),
      steps.delete('/m2-m/kept'),
      steps.create('/m2-m/kept', { data: 'other' }),
      steps.delete('/m2-m/e'),
    ];
    const failing: [ReturnType<typeof steps.create>, number][] = [
      [steps.create('/m2-m/a2'), NODE_EXISTS],
      [steps.create('/m2-m/none/x'), NO_NODE],
      [steps.create('/m2-m/a/x'), NO_CHILDREN_FOR_EPHEMERALS],
      [steps.create('/m2-m/a/'), BAD_ARGUMENTS],
      [steps.create('m'), BAD_ARGUMENTS],
      [steps.create('/m2-m/flag', { flags: 7 }), BAD_ARGUMENTS],
      [steps.create('/m2-m/acl', { acl: [] }), INVALID_ACL],
      [steps.createTtl('/m2-m/ttl', 0), BAD_ARGUMENTS],
      [steps.set('/m2-m', 'x', 0), BAD_VERSION],
      [steps.set('/m2-m/e', 'x'), NO_NODE],
      [steps.set('m', 'x'), BAD_ARGUMENTS],
      [steps.check('/m2-m/kept', 7), BAD_VERSION],
      [steps.check('/m2-m/none'), NO_NODE],
      [steps.check('/m2-m/'), BAD_ARGUMENTS],
      [steps.delete('/m2-m'), NOT_EMPTY],
      [steps.delete('/m2-m/none'), NO_NODE],
      [steps.delete('/zookeeper'), BAD_ARGUMENTS],
    ];
    for (const [step, code] of failing) {
      const errors = await zk.multi([
        ...before,
        step,
        steps.create('/m2-m/z'),
        steps.check('/m2-m'),
      ]);
      deepStrictEqual(errors, [...before.map(() => UNDONE), code, UNTRIED, UNTRIED]);
    }
    await recordTree(zk, '/m2-m');
    await zk.create('/m2-m/n-', { flags: sequential });
    await zk.ephemerals('/');
    deepStrictEqual(await zk.multi([steps.check('/m2-m', 9)]), [BAD_VERSION]);
    await zk.close();
    const other = await server.connect('b');
    await recordTree(other, '/m2-m');
  },

  'fires watches for all operations in order, or for none': async (server) => {
    const zk = await server.connect('a');
    const other = await server.connect('b');
    await zk.createAll('/m3-m', '/m3-m/a');
    for (const client of [zk, other]) {
      await client.get('/m3-m', true);
      await client.children2('/m3-m', true);
      await client.get('/m3-m/a', true);
      await client.exists('/m3-m/b', true, NO_NODE);
    }
    await zk.multi([steps.set('/m3-m', 'x'), steps.delete('/m3-m/a'), steps.delete('/m3-m/none')]);
    await other.ping();
    await other.events(0);
    await zk.multi([
      steps.create('/m3-m/b'),
      steps.delete('/m3-m/a'),
      steps.set('/m3-m', 'x'),
      steps.set('/m3-m/b', 'y'),
    ]);
    await zk.events(4);
    await other.events(4);
    await zk.multi([steps.create('/m3-m/a'), steps.delete('/m3-m/a'), steps.create('/m3-m/a')]);
    await zk.ping();
  },

  'enforces ACLs in a multi': async (server) => {
    const owner = await server.connect('owner');
    const other = await server.connect('other');
    await owner.auth('ben:secret');
    const own: Acl[] = [{ perms: 31, scheme: 'auth', id: '' }];
    await owner.multi([
      steps.create('/m4-m', { acl: own }),
      steps.create('/m4-m/a'),
      steps.create('/m4-m/a/b', { acl: own }),
    ]);
    for (const step of [
      steps.create('/m4-m/x'),
      steps.delete('/m4-m/a'),
      steps.set('/m4-m', 'x'),
      steps.check('/m4-m'),
      steps.create('/m4-x', { acl: own }),
    ]) {
      await other.multi([steps.create('/m4-free'), step]);
    }
    deepStrictEqual(await other.multi([steps.check('/m4-m')]), [NO_AUTH]);
    await other.multi(
      [steps.get('/m4-m'), steps.children('/m4-m'), steps.get('/m4-m/a')],
      0,
      OpCode.multiRead,
    );
    await owner.multi([steps.get('/m4-m'), steps.children('/m4-m')], 0, OpCode.multiRead);
    await owner.getAcl('/m4-m/a/b');
  },

  'reads several nodes with a result for each, and sets no watch': async (server) => {
    const zk = await server.connect('a');
    await zk.createAll('/m5-m', '/m5-m/a');
    const all = [
      steps.get('/m5-m'),
      steps.children('/m5-m'),
      steps.get('/m5-m/none'),
      steps.children('/m5-m/none'),
      steps.get('/m5-m/a'),
    ];
    deepStrictEqual(await zk.multi(all, 0, OpCode.multiRead), [0, 0, NO_NODE, NO_NODE, 0]);
    await zk.multi([], 0, OpCode.multiRead);
    await zk.set('/m5-m', 'x');
    await zk.create('/m5-m/none');
    await zk.events(0);
  },

  'rejects a malformed multi and keeps the connection': async (server) => {
    const zk = await server.connect('a');
    await zk.create('/m6-m');
    const wrong = [
      [steps.unknown(77)],
      [steps.create('/m6-m/a'), steps.unknown(OpCode.setACL)],
      [steps.create('/m6-m/a'), steps.get('/m6-m')],
      [steps.get('/m6-m')],
      [steps.create('/m6-m/a'), steps.create('/m6-m/t', { flags: ttl })],
    ];
    for (const all of wrong) await zk.multi(all, MARSHALLING);
    for (const all of [[steps.create('/m6-m/a')], [steps.get('/m6-m'), steps.create('/m6-m/a')]]) {
      await zk.multi(all, MARSHALLING, OpCode.multiRead);
    }
    await zk.children2('/m6-m');
    await zk.send(OpCode.multi, new Uint8Array(3), MARSHALLING);
    await zk.send(OpCode.create, new Uint8Array(2), MARSHALLING);
    await zk.send(OpCode.getData, new Uint8Array(2), MARSHALLING);
    await zk.children2('/m6-m');
  },
};
