import {
  type Acl,
  AddWatchMode,
  CreateFlag,
  OpCode,
  WatcherType,
} from '../../lib/protocol/index.js';
import { fourLetterWord } from './real-zookeeper.js';
import type { RecordedClient } from './recorded-client.js';
import type { Recorder } from './server-recorder.js';
import type { Scenario } from './server-script.js';

const { ephemeral, sequential } = CreateFlag;
const { persistent, persistentRecursive } = AddWatchMode;
const { any, children, data } = WatcherType;
const NO_NODE = -101;
const NO_AUTH = -102;
const BAD_VERSION = -103;
const NO_WATCHER = -121;
const MARSHALLING = -5;
const BAD_ARGUMENTS = -8;

const sameSession = ({ raw }: RecordedClient) => ({
  sessionId: raw.session.sessionId,
  password: raw.session.password!,
});

/** Scripts for watches and sessions: which client gets which event, and in which order. */
export const sessionScenarios: Record<string, Scenario> = {
  'fires a watch once, before the reply to the request that caused the event': async (server) => {
    const zk = await server.connect('a');
    const other = await server.connect('b');
    await zk.exists('/w', true, NO_NODE);
    await zk.exists('/w', true, NO_NODE);
    await zk.get('/w', true, NO_NODE);
    await zk.children2('/w', true, NO_NODE);
    await zk.children2('/', true);
    await other.exists('/w', true, NO_NODE);
    await zk.create('/w');
    await zk.events(2);
    await other.events(1);
    await zk.get('/w', true);
    await zk.exists('/w', true);
    await zk.children('/w', true);
    await other.set('/w', 'x');
    await zk.events(3);
    await other.set('/w', 'y');
    await other.create('/w/c');
    await zk.events(4);
    await zk.get('/w/c', true);
    await zk.children2('/w/c', true);
    await zk.children2('/w', true);
    await other.exists('/w/c', true);
    await other.delete('/w/c');
    await zk.events(6);
    await other.events(2);
    await zk.get('/w', true);
    await zk.setAcl('/w', [{ perms: 31, scheme: 'world', id: 'anyone' }]);
    await other.delete('/w');
    await zk.events(7);
    await zk.ping();
  },

  'counts its watches': async (server) => {
    const zk = await server.connect('a');
    await zk.create('/counted');
    for (let times = 0; times < 2; times++) {
      await zk.get('/counted', true);
      await zk.exists('/counted/none', true, NO_NODE);
      await zk.children('/counted', true);
    }
    server.note('wchs', await fourLetterWord(server.port, 'wchs'));
    await zk.set('/counted', 'x');
    await zk.create('/counted/none');
    await zk.events(3);
    const left = await fourLetterWord(server.port, 'wchs');
    server.note('Total watches', /Total watches:.*/.exec(left)?.[0]);
  },

  'sets watches again after a reconnect and fires those of changes in between': async (server) => {
    const zk = await server.connect('a');
    for (const path of ['/same', '/changed', '/kids', '/gone']) await zk.create(path);
    const seen = (await zk.raw.ping()).zxid;
    await zk.set('/changed', 'x');
    await zk.createAll('/kids/one', '/new');
    await zk.delete('/gone');
    const again = await server.connect('again', sameSession(zk));
    await zk.closed();
    await again.setWatches(
      seen,
      ['/same', '/changed', '/gone'],
      ['/same', '/new', '/never'],
      ['/same', '/kids', '/gone'],
    );
    await again.events(6);
    await again.set('/same', 'y');
    await again.createAll('/same/child', '/never');
    await again.events(9);
    await again.setWatches(2 ** 52, ['/same'], [], []);
    await again.ping();
  },

  'attaches a session by its id and password alone': async (server) => {
    const zk = await server.connect('a', { timeout: 5000 });
    await zk.create('/e', { flags: ephemeral });
    await zk.raw.drop();
    const again = await server.connect('again', { ...sameSession(zk), timeout: 7000 });
    await again.exists('/e');
    await again.create('/e/x', {}, -108);
    const moved = await server.connect('moved', sameSession(zk));
    await again.closed();
    await moved.exists('/e');
    await server.connect('wrong', { ...sameSession(zk), password: Buffer.alloc(16, 1) });
    await moved.closed();
    await server.connect('short', { ...sameSession(zk), password: Buffer.alloc(0) });
    const unknown = await server.connect('unknown', { ...sameSession(zk), sessionId: 12345n });
    await unknown.closed();
    const last = await server.connect('last', sameSession(zk));
    await last.exists('/e');
    await last.close();
    const closed = await server.connect('closed', sameSession(zk));
    await closed.closed();
  },

  'negotiates timeouts and accepts the handshake of old clients': async (server) => {
    for (const timeout of [1, 1000, 1001, 30_000, 60_000, 60_001, 0, -1, 2 ** 31 - 1]) {
      await server.connect(`asks ${timeout}`, { timeout });
    }
    await server.connect('old', { readOnly: undefined });
    await server.connect('reader', { readOnly: true });
    await server
      .connect('from the future', { lastZxidSeen: 2 ** 53 - 1 })
      .catch(() => server.note('refused'));
  },

  'deletes ephemeral nodes before it replies to a close': async (server) => {
    const zk = await server.connect('a');
    const other = await server.connect('b');
    await zk.create('/lock');
    await zk.create('/lock/mine', { flags: ephemeral });
    await zk.create('/lock/kept');
    await zk.get('/lock/mine', true);
    await other.get('/lock/mine', true);
    await other.children2('/lock', true);
    await zk.close();
    await other.children2('/lock');
    await other.events(2);
    await other.exists('/lock');
    await other.exists('/lock/mine', false, NO_NODE);
  },

  'expires a silent session': async (server) => {
    const zk = await server.connect('silent', { timeout: 3000 });
    const other = await server.connect('b');
    await zk.create('/silent', { flags: ephemeral });
    await other.exists('/silent', true);
    await other.events(1);
    await zk.closed();
    const late = await server.connect('late', sameSession(zk));
    await late.closed();
    await other.exists('/silent', false, NO_NODE);
  },

  'reaps emptied containers and nodes whose time to live has passed': async (server) => {
    const zk = await server.connect('a');
    await zk.create('/c', { op: OpCode.createContainer, flags: CreateFlag.container });
    await zk.create('/unused', { op: OpCode.createContainer, flags: CreateFlag.container });
    // In one write, so that the container is not empty when the reaper runs.
    await Promise.all([
      zk.create('/t', { op: OpCode.createTTL, flags: CreateFlag.ttl, ttl: 500 }),
      zk.create('/t/c'),
    ]);
    await zk.exists('/c', true);
    await zk.create('/c/child');
    await zk.exists('/c');
    await zk.delete('/c/child');
    await zk.events(1);
    await zk.exists('/t', true);
    await zk.exists('/unused');
    await zk.delete('/t/c');
    await zk.events(2);
    await zk.create('/c', { op: OpCode.createContainer, flags: CreateFlag.container });
    await zk.exists('/');
  },

  'keeps its tree and its sessions over a restart': async (server: Recorder) => {
    const zk = await server.connect('a');
    await zk.create('/r');
    await zk.create('/r/n-', { flags: sequential });
    await zk.create('/r/n-', { flags: ephemeral | sequential });
    await zk.set('/r', 'x');
    await server.restartServer();
    await zk.closed();
    const again = await server.connect('again', sameSession(zk));
    await again.get('/r');
    await again.create('/r/n-', { flags: ephemeral | sequential });
    await again.exists('/r/n-0000000001');
    await again.children2('/r');
    await again.close();
    const other = await server.connect('b');
    await other.children2('/r');
  },
};

/** Scripts for persistent watches, their removal, and requests of a client about itself. */
export const watchScenarios: Record<string, Scenario> = {
  'fires persistent watches repeatedly': async (server) => {
    const zk = await server.connect('a');
    const other = await server.connect('b');
    await zk.addWatch('/w1-w', persistent);
    await zk.addWatch('/w1-w', persistent);
    await other.create('/w1-w');
    await other.set('/w1-w', 'x');
    await other.set('/w1-w', 'y');
    await other.create('/w1-w/c');
    await other.set('/w1-w/c', 'x');
    await other.create('/w1-w/c/deep');
    await other.delete('/w1-w/c/deep');
    await other.delete('/w1-w/c');
    await other.delete('/w1-w');
    await other.create('/w1-w');
    await zk.events(7);
    await zk.ping();
  },

  'fires recursive watches for all descendants, but not for changes of child lists': async (
    server,
  ) => {
    const zk = await server.connect('a');
    const other = await server.connect('b');
    await zk.addWatch('/w2-w', persistentRecursive);
    await other.addWatch('/', persistentRecursive);
    await other.createAll('/w2-w', '/w2-w/c');
    await other.create('/w2-w/c/deep', { flags: ephemeral });
    await other.set('/w2-w/c/deep', 'x');
    await other.create('/w2-wide');
    await other.delete('/w2-w/c/deep');
    await other.delete('/w2-w/c');
    await other.delete('/w2-w');
    await zk.events(7);
    await other.events(8);
    await zk.ping();
  },

  'sends one event to a client with several watches on one node': async (server) => {
    const zk = await server.connect('a');
    const other = await server.connect('b');
    await zk.createAll('/w3-w', '/w3-w/c');
    await zk.addWatch('/w3-w', persistentRecursive);
    await zk.get('/w3-w/c', true);
    await zk.children('/w3-w/c', true);
    await zk.children('/w3-w', true);
    await other.set('/w3-w/c', 'x');
    await other.delete('/w3-w/c');
    await other.create('/w3-w/c');
    await zk.events(4);
    await zk.addWatch('/w3-w', persistent);
    await other.set('/w3-w/c', 'x');
    await other.set('/w3-w', 'x');
    await zk.addWatch('/w3-w', persistentRecursive);
    await other.delete('/w3-w/c');
    // A one-shot watch replaces a persistent watch of its kind, on the real server too.
    await zk.get('/w3-w', true);
    await other.set('/w3-w', 'y');
    await other.set('/w3-w', 'z');
    await other.create('/w3-w/d');
    await zk.ping();
  },

  'sends no event about a node that the watcher may not read': async (server) => {
    const zk = await server.connect('a');
    const owner = await server.connect('owner');
    await owner.auth('ben:secret');
    const own: Acl[] = [{ perms: 31, scheme: 'auth', id: '' }];
    await zk.create('/w9-p');
    await zk.addWatch('/w9-p', persistentRecursive);
    await zk.exists('/w9-p/secret', true, NO_NODE);
    await zk.exists('/w9-p/later', true, NO_NODE);
    await zk.children('/w9-p', true);
    await owner.exists('/w9-p/secret', true, NO_NODE);
    await owner.create('/w9-p/secret', { acl: own });
    await owner.events(1);
    await owner.set('/w9-p/secret', 'x');
    await owner.create('/w9-p/secret/open');
    await owner.delete('/w9-p/secret/open');
    await owner.delete('/w9-p/secret');
    await owner.createAll('/w9-p/later', '/w9-p/secret');
    await zk.ping();
  },

  'checks and removes watches by their kind': async (server) => {
    const zk = await server.connect('a');
    const other = await server.connect('b');
    await zk.create('/w4-w');
    for (const type of [any, children, data]) {
      await zk.checkWatches('/w4-w', type, NO_WATCHER);
      await zk.removeWatches('/w4-w', type, NO_WATCHER);
    }
    await zk.get('/w4-w', true);
    await zk.checkWatches('/w4-w', data);
    await zk.checkWatches('/w4-w', any);
    await zk.checkWatches('/w4-w', children, NO_WATCHER);
    // A check finds the watch of any client, on the real server too.
    await other.checkWatches('/w4-w', data);
    await other.removeWatches('/w4-w', data, NO_WATCHER);
    await zk.removeWatches('/w4-w', children, NO_WATCHER);
    await zk.removeWatches('/w4-w', data);
    await zk.removeWatches('/w4-w', data, NO_WATCHER);
    await zk.children('/w4-w', true);
    await zk.get('/w4-w', true);
    await zk.removeWatches('/w4-w', any);
    await zk.checkWatches('/w4-w', any, NO_WATCHER);
    await other.set('/w4-w', 'x');
    await other.create('/w4-w/c');
    await zk.events(0);
    for (const mode of [persistent, persistentRecursive]) {
      await zk.addWatch('/w4-w', mode);
      await zk.checkWatches('/w4-w', any);
      await zk.checkWatches('/w4-w/c', any, NO_WATCHER);
      await zk.removeWatches('/w4-w', children);
      await other.set('/w4-w', 'y');
      await zk.checkWatches('/w4-w', data);
      await zk.removeWatches('/w4-w', any);
      await other.set('/w4-w', 'y');
    }
    await zk.events(2);
    for (const type of [0, 4, -1]) {
      await zk.checkWatches('/w4-w', type, MARSHALLING);
      await zk.removeWatches('/w4-w', type, MARSHALLING);
    }
    for (const mode of [-1, 2, 7]) await zk.addWatch('/w4-w', mode, MARSHALLING);
    await zk.addWatch('', persistent);
    await zk.addWatch('relative', persistent);
    await zk.checkWatches('relative', any, MARSHALLING);
    await zk.checkWatches('', any, NO_WATCHER);
    await zk.ping();
  },

  'sets persistent watches again after a reconnect': async (server) => {
    const zk = await server.connect('a');
    await zk.createAll('/w5-p', '/w5-r', '/w5-d');
    const seen = (await zk.raw.ping()).zxid;
    await zk.set('/w5-p', 'missed');
    await zk.create('/w5-r/missed');
    await zk.set('/w5-d', 'missed');
    await zk.raw.drop();
    const { sessionId, password } = zk.raw.session;
    const again = await server.connect('again', { sessionId, password: password! });
    await again.setWatches2({
      relativeZxid: seen,
      dataWatches: ['/w5-d'],
      existWatches: ['/w5-new'],
      childWatches: ['/w5-r'],
      persistentWatches: ['/w5-p', '/w5-none'],
      persistentRecursiveWatches: ['/w5-r'],
    });
    await again.events(2);
    await again.set('/w5-p', 'x');
    await again.set('/w5-p', 'y');
    await again.set('/w5-r/missed', 'x');
    await again.createAll('/w5-new', '/w5-none');
    await again.events(7);
  },

  'tells a client its identities': async (server) => {
    const zk = await server.connect('a');
    const other = await server.connect('b');
    await zk.whoAmI();
    await zk.auth('ben:secret');
    await zk.auth('eve:other');
    await zk.auth(':nameless');
    await zk.whoAmI();
    await other.whoAmI();
    await zk.create('/w6-e');
    for (const path of ['/w6-e/a', '/w6-e/b', '/w6-ex'])
      await zk.create(path, { flags: ephemeral });
    await other.create('/w6-e/theirs', { flags: ephemeral });
    for (const prefix of ['/', '/w6-e', '/w6-e/', '/w6-e/a', '/w6-none', '', ' ', ' / ', 'e']) {
      await zk.ephemerals(prefix);
      await other.ephemerals(prefix);
    }
  },

  'counts the descendants of a node': async (server) => {
    const zk = await server.connect('a');
    await zk.countBelow('/');
    await zk.createAll('/w7-c', '/w7-c/a', '/w7-c/a/b', '/w7-cc');
    for (const path of ['/', '', '/w7-c', '/w7-c/a', '/w7-c/a/b', '/w7-cc', '/zookeeper']) {
      await zk.countBelow(path);
    }
    await zk.countBelow('/w7-none', NO_NODE);
    const write: Acl[] = [{ perms: 2, scheme: 'world', id: 'anyone' }];
    await zk.create('/w7-secret', { acl: write });
    await zk.countBelow('/w7-secret', NO_AUTH);
  },

  'rejects a check that fails': async (server) => {
    const zk = await server.connect('a');
    await zk.create('/w8-c');
    await zk.check('/w8-c', 5, BAD_VERSION);
    await zk.check('/w8-none', -1, NO_NODE);
    await zk.check('c', -1, BAD_ARGUMENTS);
    await zk.send(OpCode.check, new Uint8Array(2), MARSHALLING);
    await zk.ping();
  },
};
