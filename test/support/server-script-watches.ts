import {
  type Acl,
  AddWatchMode,
  CreateFlag,
  OpCode,
  WatcherType,
} from '../../lib/protocol/index.js';
import type { Scenario } from './server-script.js';

const { ephemeral } = CreateFlag;
const { persistent, persistentRecursive } = AddWatchMode;
const { any, children, data } = WatcherType;
const NO_NODE = -101;
const NO_AUTH = -102;
const BAD_VERSION = -103;
const NO_WATCHER = -121;
const MARSHALLING = -5;
const BAD_ARGUMENTS = -8;

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
    await other.create('/w2-w');
    await other.create('/w2-w/c');
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
    await zk.create('/w3-w');
    await zk.create('/w3-w/c');
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
    await owner.create('/w9-p/later');
    await owner.create('/w9-p/secret');
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
    await zk.create('/w5-p');
    await zk.create('/w5-r');
    await zk.create('/w5-d');
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
    await again.create('/w5-new');
    await again.create('/w5-none');
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
    await zk.create('/w7-c');
    await zk.create('/w7-c/a');
    await zk.create('/w7-c/a/b');
    await zk.create('/w7-cc');
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
