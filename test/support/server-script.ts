import { rejects } from 'node:assert';
import {
  type Acl,
  CreateFlag,
  MAX_FRAME_LENGTH,
  OpCode,
  Permission,
} from '../../lib/protocol/index.js';
import { OPEN } from './raw-requests.js';
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
    await zk.create('/s');
    await zk.create('/s/plain');
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
    await zk.create('/zookeeper/quota/x');
    await zk.create('/zookeeper/x');
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
