import { CreateFlag, OpCode } from '../../lib/protocol/index.js';
import { fourLetterWord } from './real-zookeeper.js';
import type { RecordedClient } from './recorded-client.js';
import type { Recorder } from './server-recorder.js';
import type { Scenario } from './server-script.js';

const { ephemeral, sequential } = CreateFlag;
const NO_NODE = -101;

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
    await zk.create('/kids/one');
    await zk.create('/new');
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
    await again.create('/same/child');
    await again.create('/never');
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
