import { hostname } from 'node:os';
import { describe, expect, it } from 'vitest';
import {
  LeaderLatch,
  LeaderSelector,
  Mutex,
  NonReentrantMutex,
  ReadWriteLock,
  Semaphore,
} from 'nestjs-zookeeper/recipes';
import { scan } from '../../../lib/cli/scan.js';
import { PROGRAM, useCli } from '../../support/cli.js';
import { aborted, useClients } from '../../support/clients.js';
import { untilNodes } from '../../support/recipe-nodes.js';
import { useServer } from '../../support/servers.js';

// The commands read the whole tree.
const server = useServer({ own: true });
const connect = useClients(server);
const cli = useCli(server);

const HERE = `${hostname()} pid ${process.pid}`;

/** Runs a command that ends. */
const run = (...args: string[]) => cli(args).ended;

/** Replaces the durations of a tree by a digit, and the spaces before them by two. */
function shape(out: string): string[] {
  return out
    .trimEnd()
    .split('\n')
    .map((line) => line.replace(/ {2,}\d+(?:s|m\d+s)$/, '  0s'));
}

/** Returns the objects of JSON lines. */
function objects(out: string): Record<string, unknown>[] {
  return out
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line) as Record<string, unknown>);
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
    await new Mutex(client, at('locks/lingers')).withLock(() => {}, { linger: 60_000 });
    await untilNodes(client, at('locks/a%2Fb'), 4);
    await untilNodes(client, at('locks/c'), 2);
    await untilNodes(client, at('semaphores/s/leases'), 3);

    const { code, out, err } = await run('locks', '--namespace', namespace);
    expect([code, err]).toEqual([0, '']);
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
      `│  └─ holds or lingers  ${HERE}  0s`,
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
  });

  it('prints one line of JSON for each lock, with all fields', async () => {
    const namespace = server.path('json');
    const client = await connect();
    const details = { name: 'shop-1', text: 'selling', data: { orders: [1] } };
    await new Mutex(client, `${namespace}/locks/a%2Fb`).acquire({ details });
    const waiting = new Mutex(client, `${namespace}/locks/a%2Fb`);
    for (let i = 0; i < 12; i++) waiting.acquire({ fairness: 'strict' }).catch(() => {});
    await new ReadWriteLock(client, `${namespace}/locks/c`).read.acquire();
    await untilNodes(client, `${namespace}/locks/a%2Fb`, 13);
    const { code, out, err } = await run('locks', '--namespace', namespace, '--json');
    expect([code, err]).toEqual([0, '']);
    const [first, second, ...more] = objects(out);
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

  it('shows the first ten groups of waiters, and counts the others', async () => {
    const path = server.path('many');
    const client = await connect();
    const mutex = new Mutex(client, path);
    await mutex.acquire();
    for (let i = 0; i < 22; i++) {
      mutex.acquire({ fairness: 'strict', details: { name: `w${i}` } }).catch(() => {});
    }
    await untilNodes(client, path, 23);
    const { out } = await run('locks', '--path', path);
    expect(out.match(/waits/g)).toHaveLength(10);
    expect(out).toContain('└─ … 12 more\n');
  });

  it("shows details written by Curator's clients, without control characters", async () => {
    const path = server.path('curator');
    const client = await connect();
    await client.ensureContainers(path);
    const session = await client.session();
    const lock = (id: string, data: string) =>
      session.create(`${path}/_c_${id}-lock-`, data, { mode: 'ephemeral-sequential' });
    await lock('6a2b1a52-1f9f-4c57-9a52-0d8e2c0a9b01', '10.0.0.7');
    await lock('6a2b1a52-1f9f-4c57-9a52-0d8e2c0a9b02', 'evil\x1b[2J\nrow');
    await lock('6a2b1a52-1f9f-4c57-9a52-0d8e2c0a9b03', '');
    await lock('6a2b1a52-1f9f-4c57-9a52-0d8e2c0a9b04', '{"host":"h","pid":1,"name":[5]}');
    // Without a namespace or a path too.
    for (const args of [[], ['--path', path]]) {
      const { out } = await run('locks', ...args);
      expect(shape(out)).toEqual([
        expect.stringMatching(/^ +AGE/),
        '/',
        `└─ ${path.slice(1)} (mutex)`,
        '   ├─ holds  10.0.0.7  0s',
        '   ├─ waits  evil?[2J?row  0s',
        `   ├─ waits  session 0x${session.id}  0s`,
        '   └─ waits  5 (h pid 1)  0s',
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
    const { code, out } = await run('locks', '--path', path);
    expect(code).toBe(0);
    expect(out).toMatch(/unclear: .*another recipe/);
    const [lock] = objects((await run('locks', '--path', path, '--json')).out);
    expect(lock).toMatchObject({ path, holders: [], problem: expect.stringMatching('recipe') });
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
    const { code, out } = await run('locks');
    expect(code).toBe(0);
    for (const heading of ['no namespace', `namespace ${one}`, `namespace ${two}/deep`]) {
      expect(out).toContain(`\n${heading}\n└─ gold (mutex)\n`);
    }
    expect(out).toMatch(/\n3 locks under \/\n$/);
    const leaders = await run('leaders');
    expect(leaders.code).toBe(0);
    expect(leaders.out).toContain(`namespace ${two}\n└─ nightly (election)\n   └─ leads  n0`);
    const only = await run('locks', '--namespace', one);
    expect(only.out.match(/gold/g)).toHaveLength(1);
    const chroot = `${server.connectString}${two}`;
    const below = objects((await run('locks', '--json', '--zookeeper', chroot)).out);
    expect(below).toMatchObject([{ namespace: '/deep', path: '/deep/locks/gold' }]);
    await latch.close();
  });

  it('are named if nothing is found, with those that do not exist', async () => {
    const namespace = server.path('empty');
    const client = await connect();
    expect(await run('locks')).toEqual({
      code: 0,
      out: 'no lock has a holder or a waiter under /\n',
      err: '',
    });
    const nowhere = await run('locks', '--namespace', namespace);
    expect([nowhere.code, nowhere.out]).toEqual([1, '']);
    expect(nowhere.err).toContain(
      `--namespace ${namespace}: the znode ${namespace} does not exist`,
    );
    await client.create(namespace);
    await client.create(`${namespace}/locks`);
    expect(await run('locks', '--namespace', namespace)).toMatchObject({
      code: 0,
      out: `no lock has a holder or a waiter under ${namespace}/locks, and ${namespace}/semaphores, which does not exist\n`,
    });
    const json = await run('leaders', '--namespace', namespace, '--json');
    expect(json).toEqual({
      code: 0,
      out: '',
      err: `nestjs-zookeeper: no election has a candidate under ${namespace}/elections, which does not exist\n`,
    });
    const path = await run('leaders', '--path', '/nowhere');
    expect(path).toEqual({
      code: 1,
      out: '',
      err: 'nestjs-zookeeper: the znode /nowhere does not exist\n',
    });
    const chroot = await run('locks', '--zookeeper', `${server.connectString}/nowhere`);
    expect([chroot.code, chroot.err]).toEqual([1, expect.stringContaining('chroot')]);
  });

  it('are left out with a message if an ACL forbids to read them', async () => {
    const namespace = server.path('secret');
    const auth = [{ scheme: 'digest' as const, user: 'ops', password: 'secret' }];
    const acl = [{ scheme: 'auth' as const, id: '', permissions: 'cdrwa' }];
    const [client, open] = await Promise.all([connect({ auth, acl }), connect()]);
    await open.ensureContainers(`${namespace}/locks`);
    await new Mutex(client, `${namespace}/locks/private`).acquire();
    await new Mutex(open, `${namespace}/locks/public`).acquire();
    const path = `${namespace}/locks/private`;
    for (const args of [[], ['--namespace', namespace]]) {
      const { code, out, err } = await run('locks', ...args);
      expect(code).toBe(1);
      expect(out).toContain('public');
      expect(err).toContain(
        `nestjs-zookeeper: an ACL denies read access to ${path}; pass credentials with ZOOKEEPER_AUTH`,
      );
    }
    const allowed = await cli(['locks', '--path', path], {
      env: { ZOOKEEPER_AUTH: 'digest:ops:secret' },
    }).ended;
    expect([allowed.code, allowed.err]).toEqual([0, '']);
    expect(allowed.out).toContain('holds');
    expect(allowed.out).not.toContain('secret:');
  });

  it('may vanish during the scan', async () => {
    const namespace = server.path('vanishing');
    const client = await connect();
    await client.ensureContainers(`${namespace}/locks/gone`);
    await new Mutex(client, `${namespace}/locks/held`).acquire();
    const options = { kinds: ['lock'] as const, inNamespace: false, path: namespace };
    const read = await scan(client, options, async (path) => {
      const { children } = await client.children(path);
      if (path === `${namespace}/locks`) await client.delete(`${namespace}/locks/gone`);
      return children;
    });
    expect(read.states.map(({ key }) => key)).toEqual(['held']);
    expect(read).toMatchObject({ missing: [], unreadable: [], truncated: false });
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
    const { code, out } = await run('leaders', '--namespace', namespace);
    expect(code).toBe(0);
    expect(shape(out).slice(1)).toEqual([
      `namespace ${namespace}`,
      '├─ nightly (election)',
      '│  ├─ leads  n0  0s',
      '│  └─ waits  n1  0s',
      '└─ select (election)',
      '   └─ leads  s0  0s',
      `2 elections under ${namespace}/elections`,
    ]);
    const json = await run('leaders', '--path', path, '--json');
    expect(objects(json.out)).toMatchObject([
      { namespace, key: 'nightly', path, holders: [{ id: 'n0' }], waiters: [{ id: 'n1' }] },
    ]);
    const named = objects((await run('leaders', '--path', outside, '--json')).out);
    expect(named).toMatchObject([{ path: outside, recipe: 'election', holders: [{ id: 's0' }] }]);
    await Promise.all([...latches, ...selectors].map((each) => each.close()));
  });
});

describe('the output', () => {
  const COLOURS = '\x1b[32mholds';

  /** Runs a command on a terminal. */
  function onTerminal(command: string, env: Record<string, string> = {}) {
    const line = `${process.execPath} ${PROGRAM} ${command}`;
    return cli.program('script', ['-qec', line, '/dev/null'], {
      // Node assumes no colours if CI is set.
      env: { TERM: 'xterm', CI: undefined, NODE_OPTIONS: '', ...env },
    }).ended;
  }

  it('has colours on a terminal only, unless NO_COLOR or FORCE_COLOR is set', async () => {
    const path = server.path('coloured');
    await new Mutex(await connect(), path).acquire();
    const command = `locks --path ${path}`;
    expect((await onTerminal(command)).out).toContain(COLOURS);
    expect((await onTerminal(command, { NO_COLOR: '1' })).out).not.toContain('\x1b[');
    const piped = (env?: Record<string, string>) => cli(command.split(' '), { env }).ended;
    expect((await piped()).out).not.toContain('\x1b[');
    expect((await piped({ FORCE_COLOR: '1' })).out).toContain(COLOURS);
  });

  it('fits the width of the terminal', async () => {
    const path = server.path('wide');
    const text = '訂單'.repeat(40);
    await new Mutex(await connect(), path).acquire({ details: { name: 'shop', text } });
    const line = `stty cols 50; exec ${process.execPath} ${PROGRAM} locks --path ${path}`;
    const { out } = await cli.program('script', ['-qec', line, '/dev/null'], {
      env: { NO_COLOR: '1' },
    }).ended;
    const holds = out.split('\r\n').find((each) => each.includes('holds'))!;
    // How many characters fit depends on the number of digits of the process id.
    expect(holds).toMatch(/[訂單]…? +\d+s$/);
    // Each of these characters has two columns.
    expect(holds.length + holds.match(/[訂單]/g)!.length).toBeLessThanOrEqual(50);
    expect((await run('locks', '--path', path)).out).toContain(text);
  });

  it('may lose its reader', async () => {
    const path = server.path('head');
    const client = await connect();
    for (const key of ['a', 'b', 'c']) await new Mutex(client, `${path}/${key}`).acquire();
    const line = `set -o pipefail; ${process.execPath} ${PROGRAM} locks --json --path ${path} | head -1`;
    const { code, out, err } = await cli.program('bash', ['-c', line]).ended;
    expect([code, err]).toEqual([0, '']);
    expect(objects(out)).toMatchObject([{ key: 'a' }]);
  });
});

describe('the command line', () => {
  it.each([
    [['lcoks'], "unknown command 'lcoks'\n(Did you mean locks?)"],
    [['revoke'], "missing required argument 'key|path'"],
    [['locks', 'x'], 'too many arguments'],
    [['locks', '--every', '500ms'], "unknown option '--every'"],
    [['watch', '--every', '500'], 'It must be a duration such as 500ms'],
    [['watch', '--every', '50ms'], 'It must be at least 100ms.'],
    [['locks', '--path', 'x'], "argument 'x' is invalid. It must be the path of a znode"],
    [['locks', '--path', '/x', '--namespace', 'y'], 'cannot be used with option'],
    [['locks', '--namspace', 'x'], '(Did you mean --namespace?)'],
    [['locks', '--auth', 'digest:secret'], 'the credentials must be digest:user:password'],
    [['locks', '--ca', '/nowhere.pem'], '--ca: ENOENT'],
    [['locks', '--zookeeper', 'a:b'], '--zookeeper must be'],
    [['locks', '--namespace', 'a//b'], '--namespace must be'],
    [['locks', '--path', '/a//b'], "argument '/a//b' is invalid"],
    [['revoke', '/'], 'It must be the path of a znode below the root.'],
  ])('rejects %j: %s', async (args, said) => {
    const { code, out, err } = await run(...args);
    expect([code, out]).toEqual([2, '']);
    expect(err).toContain(said);
    expect(err).not.toContain('secret');
  });

  it('requires the address of an ensemble that replies', async () => {
    const { code, err } = await cli(['locks'], { env: { ZOOKEEPER: '' } }).ended;
    expect([code, err]).toEqual([2, expect.stringContaining('--zookeeper is missing')]);
    const away = await run('locks', '--zookeeper', '127.0.0.1:1');
    expect([away.code, away.err]).toEqual([120, expect.stringContaining('127.0.0.1:1')]);
  });
});
