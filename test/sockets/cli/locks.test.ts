import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { hostname } from 'node:os';
import { afterEach, describe, expect, it, onTestFinished } from 'vitest';
import {
  LeaderLatch,
  LeaderSelector,
  Mutex,
  NonReentrantMutex,
  ReadWriteLock,
  Semaphore,
} from 'nestjs-zookeeper/recipes';
import type { ZkClientOptions } from '../../../lib/client/index.js';
import { runCli } from '../../support/cli.js';
import { aborted, useClients } from '../../support/clients.js';
import { killedHolder } from '../../support/killed-holder.js';
import { untilNodes } from '../../support/recipe-nodes.js';
import { useServer } from '../../support/servers.js';

// The commands read the whole tree.
const server = useServer({ own: true });
// Runs after the clients are closed.
afterEach(async () => {
  const client = server.newClient();
  await client.connect();
  const empty = async (path: string): Promise<void> => {
    const { children } = await client.children(path || '/').catch(() => ({ children: [] }));
    for (const name of children.filter((each) => each !== 'zookeeper')) {
      await empty(`${path}/${name}`);
      // The server may delete an empty container first.
      await client.delete(`${path}/${name}`).catch(() => {});
    }
  };
  await empty('');
  await client.close();
});
const connect = useClients(server);

const HERE = `${hostname()} pid ${process.pid}`;
/** A character that could change what a terminal shows. */
const HIDDEN = /[\p{C}\p{Zl}\p{Zp}]/u;
/** A client that alone can read its znodes. */
const PRIVATE: Partial<ZkClientOptions> = {
  auth: [{ scheme: 'digest', user: 'ops', password: 'secret' }],
  acl: [{ scheme: 'auth', id: '', permissions: 'cdrwa' }],
};

const run = (...args: string[]) => runCli(args, { ZOOKEEPER: server.connectString });

/** Runs a command that succeeds, and returns its output. */
async function outputOf(...args: string[]): Promise<string> {
  const { code, out, err } = await run(...args);
  expect([code, err]).toEqual([0, '']);
  return out;
}

/** Returns the objects of the JSON lines that a command prints. */
async function objectsOf(...args: string[]): Promise<Record<string, unknown>[]> {
  const lines = (await outputOf(...args, '--json')).trimEnd().split('\n');
  return lines.map((line) => JSON.parse(line) as Record<string, unknown>);
}

/** Replaces the durations of a tree by a digit, and the spaces before them by two. */
function shape(out: string): string[] {
  const lines = out.trimEnd().split('\n');
  return lines.map((line) => line.replace(/ {2,}\d+(?:s|m\d+s)$/, '  0s'));
}

describe('locks', () => {
  it('shows the holders and waiters of each recipe as a tree', async () => {
    const namespace = server.path('shown');
    const [client, other] = await Promise.all([connect(), connect()]);
    const at = (name: string) => `${namespace}/${name}`;
    const details = { name: 'shop-1', text: 'selling' };
    await new Mutex(client, at('locks/a%2Fb')).acquire({ details });
    for (let i = 0; i < 3; i++) {
      const waiting = new Mutex(other, at('locks/a%2Fb'));
      waiting.acquire({ details: { name: 'shop-2' }, fairness: 'strict' }).catch(() => {});
    }
    await new ReadWriteLock(client, at('locks/c')).write.acquire();
    new ReadWriteLock(other, at('locks/c')).read.acquire().catch(() => {});
    await new NonReentrantMutex(client, at('locks/d')).acquire();
    await new Mutex(client, at('locks/leases')).acquire();
    // It looks like the znode of a participant.
    await new Mutex(client, at('locks/user-lock-1700000000')).acquire();
    await new Semaphore(client, at('semaphores/s'), { permits: 2 }).acquire({ count: 2 });
    new Semaphore(other, at('semaphores/s'), { permits: 2 }).acquire().catch(() => {});
    await new Mutex(client, at('locks/free')).withLock(() => {});
    // Only the holder in another process is shown as one that may linger.
    const holder = JSON.stringify({ host: 'shop-2', pid: 7, linger: true });
    await client.ensureContainers(at('locks/lingers'));
    const lingers = `${at('locks/lingers')}/_c_6a2b1a52-1f9f-4c57-9a52-0d8e2c0a9b01-lock-`;
    await (await client.session()).create(lingers, holder, { mode: 'ephemeral-sequential' });
    await untilNodes(client, at('locks/a%2Fb'), 4);
    await untilNodes(client, at('locks/c'), 2);
    await untilNodes(client, at('semaphores/s/leases'), 3);

    const out = await outputOf('locks', '--namespace', namespace);
    expect(shape(out)).toEqual([
      expect.stringMatching(/^ +AGE {2}WAITED$/),
      `namespace ${namespace}`,
      '├─ a/b (mutex)',
      `│  ├─ holds  shop-1 (${HERE}): selling  0s`,
      '│  └─ waits  shop-2 × 3  0s',
      '├─ c (read/write)',
      `│  ├─ holds to write  ${HERE}  0s`,
      `│  └─ waits to read  ${HERE}  0s`,
      '├─ d (semaphore)',
      `│  └─ holds  ${HERE}  0s`,
      '├─ leases (mutex)',
      `│  └─ holds  ${HERE}  0s`,
      '├─ lingers (mutex)',
      '│  └─ holds or lingers  shop-2 pid 7  0s',
      '├─ user-lock-1700000000 (mutex)',
      `│  └─ holds  ${HERE}  0s`,
      '└─ s (semaphore)',
      `   ├─ holds  ${HERE} × 2  0s`,
      `   └─ waits  ${HERE}  0s`,
      `7 locks under ${namespace}/locks, and ${namespace}/semaphores`,
    ]);
    // A wait is in the last column.
    const [header, , , holds, waits] = out.split('\n');
    expect(holds!.trimEnd()).toHaveLength(header!.indexOf('AGE') + 3);
    expect(waits!.trimEnd()).toHaveLength(header!.length);

    const coloured = await runCli(['locks', '--namespace', namespace], {
      ZOOKEEPER: server.connectString,
      FORCE_COLOR: '1',
    });
    expect(out).not.toContain('\x1b[');
    expect(coloured.out).toContain('\x1b[32mholds');
  });

  it('prints one line of JSON for each lock, with all fields', async () => {
    const namespace = server.path('json');
    const client = await connect();
    const details = { name: 'shop-1', text: 'selling', data: { orders: [1] } };
    const mutex = new Mutex(client, `${namespace}/locks/a%2Fb`);
    await mutex.acquire({ details });
    for (let i = 0; i < 12; i++) mutex.acquire({ fairness: 'strict' }).catch(() => {});
    await new ReadWriteLock(client, `${namespace}/locks/c`).read.acquire();
    await untilNodes(client, `${namespace}/locks/a%2Fb`, 13);
    const [first, second, ...more] = await objectsOf('locks', '--namespace', namespace);
    expect(more).toEqual([]);
    const member = {
      path: expect.stringMatching(`^${namespace}/locks/a%2Fb/.*-lock-\\d+$`) as string,
      session: client.sessionId,
      since: expect.stringMatching(/^\d{4}-\d\d-\d\dT.*Z$/) as string,
      host: hostname(),
      pid: process.pid,
      mode: 'exclusive',
      mayLinger: false,
      revoked: false,
    };
    const lock = { namespace, key: 'a/b', path: `${namespace}/locks/a%2Fb`, recipe: 'mutex' };
    expect(first).toEqual({
      ...lock,
      holders: [{ ...member, details }],
      waiters: Array.from({ length: 12 }, () => ({ ...member, details: {} })),
    });
    expect(second).toMatchObject({ key: 'c', recipe: 'read/write', holders: [{ mode: 'read' }] });
  });

  it('prints JSON whatever another client wrote, without characters that change what a terminal shows', async () => {
    const path = server.path('hostile');
    const client = await connect();
    await client.ensureContainers(path);
    const deep = `${'['.repeat(200_000)}${']'.repeat(200_000)}`;
    const name = 'a\u009b2J\u202e\u2028\u{e0041}';
    const data = `{"host":"h","pid":1,"name":"${name}","data":${deep}}`;
    await client.create(`${path}/\u202e-lock-`, data, { mode: 'ephemeral-sequential' });
    const out = await outputOf('locks', '--path', path, '--json');
    expect(out.trimEnd()).not.toMatch(HIDDEN);
    const [holder] = (JSON.parse(out) as { holders: object[] }).holders;
    expect(holder).toMatchObject({
      path: `${path}/\u202e-lock-0000000000`,
      details: { name, data: 'left out: more than 100 levels' },
    });
    expect(await outputOf('revoke', path)).toBe(`asked ${path}/?-lock-0000000000\n`);
    expect((await outputOf('revoke', path, '--json')).trimEnd()).not.toMatch(HIDDEN);
    const { err } = await run('revoke', 'x\u009b\u202e');
    expect(err).toBe('nestjs-zookeeper: nobody holds "x??" under /\n');
  });

  it('shows the first ten groups of waiters, and counts the others', async () => {
    const path = server.path('many');
    const client = await connect();
    const mutex = new Mutex(client, path);
    await mutex.acquire();
    for (let i = 0; i < 22; i++) {
      mutex.acquire({ fairness: 'strict', details: { name: `w${i}` } }).catch(() => {});
    }
    await untilNodes(client, path, 23);
    const out = await outputOf('locks', '--path', path);
    expect(out.match(/waits/g)).toHaveLength(10);
    expect(out).toContain('└─ … 12 more\n');
  });

  it("shows details written by Curator's clients, without control characters, and short", async () => {
    const path = server.path('curator');
    const client = await connect();
    await client.ensureContainers(path);
    const session = await client.session();
    for (const [index, data] of [
      '10.0.0.7',
      'evil\x1b[2J\nrow',
      '',
      '{"host":"h","pid":1,"name":{"toString":1},"text":{"toString":1}}',
      `{"host":"h","pid":2,"name":"${'A'.repeat(900_000)}"}`,
    ].entries()) {
      const name = `_c_6a2b1a52-1f9f-4c57-9a52-0d8e2c0a9b0${index}-lock-`;
      await session.create(`${path}/${name}`, data, { mode: 'ephemeral-sequential' });
    }
    // Without a namespace or a path too.
    for (const args of [[], ['--path', path]]) {
      expect(shape(await outputOf('locks', ...args))).toEqual([
        expect.stringMatching(/^ +AGE/),
        '/',
        `└─ ${path.slice(1)} (mutex)`,
        '   ├─ holds  10.0.0.7  0s',
        '   ├─ waits  evil?[2J row  0s',
        `   ├─ waits  session 0x${session.id}  0s`,
        '   ├─ waits  h pid 1  0s',
        `   └─ waits  ${'A'.repeat(200)}…  0s`,
        `1 lock under ${args[1] ?? '/'}`,
      ]);
    }
  });

  it('shows a path that two recipes use as unclear', async () => {
    const path = server.path('mixed');
    const client = await connect();
    await client.ensureContainers(path);
    const session = await client.session();
    for (const name of ['x-lock-', 'x__READ__']) {
      await session.create(`${path}/${name}`, '', { mode: 'ephemeral-sequential' });
    }
    expect(await outputOf('locks', '--path', path)).toMatch(/unclear: .*another recipe/);
    const [lock] = await objectsOf('locks', '--path', path);
    expect(lock).toMatchObject({ path, holders: [], problem: expect.stringMatching('recipe') });
  });

  it('marks a holder of this machine whose process has ended', async () => {
    const { connectString } = server;
    const { pid } = await killedHolder({ connectString, path: '/ended' });
    await new Mutex(await connect(), '/alive').acquire();
    const out = await outputOf('locks');
    expect(out).toContain(`holds, process ended  ${hostname()} pid ${pid}`);
    expect(out).toContain(`holds  ${HERE}`);
    const [alive, ended] = await objectsOf('locks');
    expect(alive!.holders).toEqual([expect.not.objectContaining({ processEnded: true })]);
    expect(ended!.holders).toEqual([expect.objectContaining({ processEnded: true })]);
  });

  it.each([
    [
      'text',
      'HTTP/1.1 400 Bad Request\r\n',
      'is not a ZooKeeper server, and answers "HTTP/1.1 400',
    ],
    ['nothing', '', 'no reply within 5000 ms'],
  ])('fails after a few seconds if another program answers %s', async (_answer, text, message) => {
    let connections = 0;
    const other = createServer((socket) => {
      connections += 1;
      socket.on('error', () => {}).write(text);
    }).listen(0);
    onTestFinished(() => void other.close());
    await once(other, 'listening');
    const { port } = other.address() as AddressInfo;
    const { code, err } = await runCli(['locks', '--zookeeper', `127.0.0.1:${port}`]);
    expect(code).toBe(120);
    expect(err).toContain(message);
    expect(connections).toBe(text ? 4 : 1);
  });

  it('uses ZK_CONNECT_STRING, and ZOOKEEPER without it', async () => {
    const env = { ZK_CONNECT_STRING: server.connectString, ZOOKEEPER: '127.0.0.1:1' };
    expect((await runCli(['locks'], env)).code).toBe(0);
    const old = { ZK_CONNECT_STRING: '', ZOOKEEPER: server.connectString };
    expect((await runCli(['locks'], old)).code).toBe(0);
  });

  it('fails if no server replies', async () => {
    const { code, err } = await run('locks', '--zookeeper', '127.0.0.1:1');
    expect([code, err]).toEqual([120, expect.stringContaining('127.0.0.1:1')]);
  });
});

describe('the znodes that are scanned', () => {
  it('are those of all namespaces by default', async () => {
    const [one, two] = [server.path('one'), server.path('two')];
    const client = await connect();
    await new Mutex(client, `${one}/locks/gold`).acquire();
    await new Mutex(client, `${two}/deep/locks/gold`).acquire();
    await new Mutex(client, '/locks/gold').acquire();
    // The root looks like a lock.
    const session = await client.session();
    await session.create('/x-lock-', '', { mode: 'ephemeral-sequential' });
    const latch = new LeaderLatch(client, `${two}/elections/nightly`, { id: 'n0' });
    latch.start();
    await untilNodes(client, `${two}/elections/nightly`, 1);
    const out = await outputOf('locks');
    for (const heading of ['no namespace', `namespace ${one}`, `namespace ${two}/deep`]) {
      expect(out).toContain(`\n${heading}\n└─ gold (mutex)\n`);
    }
    expect(out).toMatch(/\n3 locks under \/\n$/);
    expect(await outputOf('leaders')).toContain(
      `namespace ${two}\n└─ nightly (election)\n   └─ leads  n0`,
    );
    expect((await outputOf('locks', '--namespace', one)).match(/gold/g)).toHaveLength(1);
    const below = await objectsOf('locks', '--zookeeper', `${server.connectString}${two}`);
    expect(below).toMatchObject([{ namespace: '/deep', path: '/deep/locks/gold' }]);
    await latch.close();
  });

  it('are named if nothing is found, with those that do not exist', async () => {
    const namespace = server.path('empty');
    const client = await connect();
    expect(await outputOf('locks')).toBe('no lock has a holder or a waiter under /\n');
    for (const [args, message] of [
      [
        ['--namespace', namespace],
        `--namespace ${namespace}: the znode ${namespace} does not exist`,
      ],
      [['--path', '/nowhere'], 'the znode /nowhere does not exist\n'],
      [['--zookeeper', `${server.connectString}/nowhere`], 'chroot'],
    ] as const) {
      const { code, out, err } = await run('leaders', ...args);
      expect([code, out, err]).toEqual([1, '', expect.stringContaining(message)]);
    }
    await client.create(namespace);
    await client.create(`${namespace}/locks`);
    expect(await outputOf('locks', '--namespace', namespace)).toBe(
      `no lock has a holder or a waiter under ${namespace}/locks, and ${namespace}/semaphores, which does not exist\n`,
    );
    expect(await run('leaders', '--namespace', namespace, '--json')).toEqual({
      code: 0,
      out: '',
      err: `nestjs-zookeeper: no election has a candidate under ${namespace}/elections, which does not exist\n`,
    });
  });

  it('are 12 levels, unless a path or a namespace names one further down', async () => {
    const client = await connect();
    const path = '/d'.repeat(13);
    await client.ensureContainers(path);
    await new Mutex(client, `${path}/gold`).acquire();
    expect(await run('locks')).toEqual({
      code: 1,
      out: 'no lock has a holder or a waiter under /, as far as it was read\n',
      err: 'nestjs-zookeeper: only a part of the znodes under / was read: at most 20000 znodes and 12 levels. Name a namespace with --namespace, or a znode further down with --path\n',
    });
    expect(await outputOf('locks', '--path', path)).toContain('gold');
  });

  it('are left out with a message if an ACL forbids to read them', async () => {
    const namespace = server.path('secret');
    const [client, open] = await Promise.all([connect(PRIVATE), connect()]);
    await open.ensureContainers(`${namespace}/locks`);
    const path = `${namespace}/locks/private`;
    await new Mutex(client, path).acquire();
    await new Mutex(open, `${namespace}/locks/public`).acquire();
    for (const args of [[], ['--namespace', namespace]]) {
      const { code, out, err } = await run('locks', ...args);
      expect([code, out]).toEqual([1, expect.stringContaining('public')]);
      expect(err).toContain(
        `nestjs-zookeeper: an ACL denies read access to ${path}; pass credentials with ZOOKEEPER_AUTH`,
      );
    }
    // Another namespace may have the key too.
    const { code, err } = await run('revoke', 'public');
    expect([code, err]).toEqual([1, expect.stringContaining('denies read access')]);
    const env = { ZOOKEEPER: server.connectString, ZOOKEEPER_AUTH: 'digest:ops:secret' };
    const allowed = await runCli(['locks', '--path', path], env);
    expect([allowed.code, allowed.err]).toEqual([0, '']);
    expect(allowed.out).toContain('holds');
    expect(allowed.out).not.toContain('secret:');
  });
});

describe('leaders', () => {
  it('shows the leader and the candidates of each election', async () => {
    const namespace = server.path('leaders');
    const [client, other] = await Promise.all([connect(), connect()]);
    const path = `${namespace}/elections/nightly`;
    const latches = [client, other].map((each, i) => new LeaderLatch(each, path, { id: `n${i}` }));
    for (const [index, latch] of latches.entries()) {
      latch.start();
      await untilNodes(client, path, index + 1);
    }
    const outside = `${namespace}/outside`;
    const selectors = [`${namespace}/elections/select`, outside].map((each) => {
      const lead = ({ signal }: { signal: AbortSignal }) => aborted(signal).then(() => {});
      const selector = new LeaderSelector(client, each, lead, { id: 's0' });
      selector.start();
      return selector;
    });
    await untilNodes(client, `${namespace}/elections/select`, 1);
    await untilNodes(client, outside, 1);
    expect(shape(await outputOf('leaders', '--namespace', namespace)).slice(1)).toEqual([
      `namespace ${namespace}`,
      '├─ nightly (election)',
      '│  ├─ leads  n0  0s',
      '│  └─ waits  n1  0s',
      '└─ select (election)',
      '   └─ leads  s0  0s',
      `2 elections under ${namespace}/elections`,
    ]);
    expect(await objectsOf('leaders', '--path', path)).toMatchObject([
      { namespace, key: 'nightly', path, holders: [{ id: 'n0' }], waiters: [{ id: 'n1' }] },
    ]);
    expect(await objectsOf('leaders', '--path', outside)).toMatchObject([
      { path: outside, recipe: 'election', holders: [{ id: 's0' }] },
    ]);
    await Promise.all([...latches, ...selectors].map((each) => each.close()));
  });
});

describe('revoke', () => {
  it('requests revocation from the holder of a key, which keeps the lock', async () => {
    const namespace = server.path('revoked');
    const client = await connect();
    const lease = await new Mutex(client, `${namespace}/locks/a%2Fb`).acquire();
    const { revocation } = lease;
    expect(await outputOf('revoke', 'a/b')).toMatch(
      new RegExp(`^asked ${namespace}/locks/a%2Fb/.*-lock-0000000000\n$`),
    );
    await aborted(revocation);
    expect(lease.held).toBe(true);
    expect(await outputOf('locks', '--namespace', namespace)).toContain('holds, revoke requested');
  });

  it('refuses a key that several namespaces have, and asks the holder in one of them', async () => {
    const [one, two] = [server.path('one'), server.path('two')];
    const client = await connect();
    const leases = await Promise.all(
      [one, two].map((each) => new Mutex(client, `${each}/locks/gold`).acquire()),
    );
    const revocations = leases.map(({ revocation }) => revocation);
    const { code, out, err } = await run('revoke', 'gold');
    expect([code, out]).toEqual([1, '']);
    expect(err).toContain(
      `2 locks have the key "gold": ${one}/locks/gold, ${two}/locks/gold. Name one with --namespace`,
    );
    await outputOf('revoke', 'gold', '--namespace', two);
    await aborted(revocations[1]!);
    expect(revocations[0]!.aborted).toBe(false);
  });

  it('requests revocation from one participant only', async () => {
    const path = server.path('participant');
    const [client, other] = await Promise.all([connect(), connect()]);
    const leases = await Promise.all(
      [client, other].map((each) => new ReadWriteLock(each, path).read.acquire()),
    );
    const both = leases.map(({ revocation }) => revocation);
    const [first] = await new ReadWriteLock(client, path).read.participants();
    expect(await outputOf('revoke', path, '--participant', first!.path)).toBe(
      `asked ${first!.path}\n`,
    );
    await Promise.any(both.map(aborted));
    expect(both.filter((signal) => signal.aborted)).toHaveLength(1);
    const absent = await run('revoke', path, '--participant', `${path}/absent`);
    expect([absent.code, absent.err]).toEqual([
      1,
      `nestjs-zookeeper: --participant: ${path}/absent does not hold or wait for ${path}\n`,
    ]);
  });

  it('asks the holder of a lock that lingers', async () => {
    const path = server.path('lingers');
    const client = await connect();
    await new Mutex(client, path).withLock(() => {}, { linger: 60_000 });
    expect(await outputOf('revoke', path, '--json')).toMatch(/^\[".*-lock-\d+"\]\n$/);
    await untilNodes(client, path, 0);
  });

  it('fails if no participant holds the lock', async () => {
    const path = server.path('nobody');
    const client = await connect();
    expect(await run('revoke', 'nobody')).toEqual({
      code: 1,
      out: '',
      err: 'nestjs-zookeeper: nobody holds "nobody" under /\n',
    });
    for (const message of ['does not exist', `nobody holds ${path}`]) {
      const { code, err } = await run('revoke', path);
      expect([code, err]).toEqual([1, expect.stringContaining(message)]);
      await client.create(path).catch(() => {});
    }
  });
});
