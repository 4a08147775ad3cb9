import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { afterEach, describe, expect, it } from 'vitest';
import {
  LeaderLatch,
  LeaderSelector,
  Mutex,
  NonReentrantMutex,
  ReadWriteLock,
  Semaphore,
} from 'nestjs-zookeeper/recipes';
import { aborted, useClients } from '../../support/clients.js';
import { untilNodes } from '../../support/recipe-nodes.js';
import { useServer } from '../../support/servers.js';

const server = useServer({ own: true });
const connect = useClients(server);
const PROGRAM = fileURLToPath(new URL('../../../dist/cli/main.js', import.meta.url));

const running: ChildProcess[] = [];
afterEach(() => running.splice(0).forEach((child) => child.kill('SIGKILL')));

interface Run {
  readonly child: ChildProcess;
  readonly out: () => string;
  /** Resolves when the command has exited, with its exit code and its output. */
  readonly end: Promise<{ code: number | null; out: string; err: string }>;
}

function start(args: string[], env: Record<string, string> = {}): Run {
  const child = spawn(process.execPath, [PROGRAM, ...args], {
    env: { ...process.env, ZOOKEEPER: server.connectString, ...env },
  });
  running.push(child);
  let out = '';
  let err = '';
  child.stdout.on('data', (data: Buffer) => (out += data.toString()));
  child.stderr.on('data', (data: Buffer) => (err += data.toString()));
  const end = once(child, 'close').then(([code]) => ({ code: code as number | null, out, err }));
  return { child, out: () => out, end };
}

const cli = (...args: string[]) => start(args).end;

/** Returns the cells of the table's rows, without its header. */
function rows(out: string): string[][] {
  return out
    .trimEnd()
    .split('\n')
    .slice(1)
    .map((line) => line.split(/ {2,}/));
}

describe('locks', () => {
  it('shows the holders and the waiters of each recipe', async () => {
    const namespace = server.path('shown');
    const [client, other] = await Promise.all([connect(), connect()]);
    const at = (name: string) => `${namespace}/${name}`;
    const details = { name: 'shop-1', text: 'selling' };
    await new Mutex(client, at('locks/a%2Fb')).acquire({ details });
    const waiting = new Mutex(other, at('locks/a%2Fb')).acquire();
    waiting.catch(() => {});
    await new ReadWriteLock(client, at('locks/c')).write.acquire();
    await new NonReentrantMutex(client, at('locks/d')).acquire();
    await new Semaphore(client, at('semaphores/s'), { permits: 2 }).acquire();
    await new Mutex(client, at('locks/free')).withLock(() => {});
    await untilNodes(client, at('locks/a%2Fb'), 2);

    const { code, out, err } = await cli('locks', '--namespace', namespace);
    expect(err).toBe('');
    expect(code).toBe(0);
    expect(out).toMatch(/^KEY +RECIPE +STATE +PARTICIPANT +DETAILS +SINCE\n/);
    const who = expect.stringMatching(new RegExp(`pid ${process.pid}$`));
    const since = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/);
    expect(rows(out)).toEqual([
      ['a/b', 'mutex', 'holds', who, 'shop-1: selling', since],
      ['a/b', 'mutex', 'waits', who, since],
      ['c', 'read/write', 'holds to write', who, since],
      ['d', 'semaphore', 'holds', who, since],
      ['s', 'semaphore', 'holds', who, since],
    ]);

    const json = await cli('locks', '--namespace', namespace, '--json');
    const [first] = JSON.parse(json.out) as unknown[];
    expect(first).toMatchObject({
      key: 'a/b',
      path: at('locks/a%2Fb'),
      recipe: 'mutex',
      participants: [{ state: 'holding', details, pid: process.pid }, { state: 'waiting' }],
    });
  });

  it('shows that a lock may linger, which only its own process knows', async () => {
    const root = server.path('lingers');
    const client = await connect();
    const mutex = new Mutex(client, `${root}/one`);
    await mutex.withLock(() => {}, { linger: 60_000, details: { name: 'nightly' } });
    const [row] = rows((await cli('locks', '--path', root)).out);
    expect(row!.slice(0, 3)).toEqual(['one', 'mutex', 'holds or lingers']);
    expect(await mutex.participants()).toMatchObject([{ state: 'lingering' }]);
    const { code } = await cli('revoke', `${root}/one`);
    expect(code).toBe(0);
    await untilNodes(client, `${root}/one`, 0);
  });

  it('shows one lock, or the locks below a znode, with --path', async () => {
    const root = server.path('by-path');
    const client = await connect();
    await new Mutex(client, `${root}/one`).acquire();
    await new Mutex(client, `${root}/two`).acquire();
    expect(rows((await cli('locks', '--path', root)).out).map(([key]) => key)).toEqual([
      'one',
      'two',
    ]);
    expect(rows((await cli('locks', '--path', `${root}/two`)).out)).toHaveLength(1);
  });

  it("shows details written by Curator's clients, without control characters", async () => {
    const root = server.path('curator');
    const client = await connect();
    await client.ensureContainers(`${root}/job`);
    const session = await client.session();
    const lock = (id: string, data: string) =>
      session.create(`${root}/job/_c_${id}-lock-`, data, { mode: 'ephemeral-sequential' });
    await lock('6a2b1a52-1f9f-4c57-9a52-0d8e2c0a9b01', '10.0.0.7');
    await lock('6a2b1a52-1f9f-4c57-9a52-0d8e2c0a9b02', 'evil\x1b[2J\nrow');
    const { out } = await cli('locks', '--path', root);
    expect(out).toContain('10.0.0.7');
    expect(out).toContain('evil?[2J?row');
    expect(rows(out)).toHaveLength(2);
  });

  it('prints one sentence if no lock has a holder', async () => {
    const { code, out } = await cli('locks', '--namespace', server.path('none'));
    expect([code, out]).toEqual([0, 'no lock has a holder or a waiter\n']);
  });

  it('counts the waiters beyond the limit, and names a path used by two recipes', async () => {
    const root = server.path('many');
    const client = await connect();
    const mutex = new Mutex(client, `${root}/many`);
    await mutex.acquire();
    for (let i = 0; i < 13; i++) mutex.acquire({ fairness: 'strict' }).catch(() => {});
    await untilNodes(client, `${root}/many`, 14);
    const session = await client.session();
    await client.ensureContainers(`${root}/mixed`);
    for (const name of ['x-lock-', 'x__READ__']) {
      await session.create(`${root}/mixed/${name}`, '', { mode: 'ephemeral-sequential' });
    }
    const { code, out } = await cli('locks', '--path', root);
    expect(code).toBe(0);
    expect(out).toMatch(/^many +mutex +3 more wait$/m);
    expect(out).toMatch(/^mixed .* unclear .*another recipe/m);
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
    const selector = new LeaderSelector(
      client,
      `${namespace}/elections/select`,
      ({ signal }) => aborted(signal).then(() => {}),
      { id: 's0' },
    );
    selector.start();
    await untilNodes(client, `${namespace}/elections/select`, 1);
    const { code, out } = await cli('leaders', '--namespace', namespace);
    expect(code).toBe(0);
    expect(rows(out).map((row) => row.slice(0, 3))).toEqual([
      ['nightly', 'leads', 'n0'],
      ['nightly', 'waits', 'n1'],
      ['select', 'leads', 's0'],
    ]);
    const json = await cli('leaders', '--path', path, '--json');
    expect(JSON.parse(json.out)).toMatchObject([
      { election: 'nightly', path, participants: [{ id: 'n0', isLeader: true }, { id: 'n1' }] },
    ]);
    await Promise.all([...latches, selector].map((each) => each.close()));
  });
});

describe('watch', () => {
  it('prints again after each change, and closes its session and exits on SIGINT', async () => {
    const namespace = server.path('watched');
    const client = await connect();
    const { child, out, end } = start(['watch', '--namespace', namespace, '--every', '100']);
    await expect.poll(out).toContain('no lock has a holder');
    const lease = await new Mutex(client, `${namespace}/locks/gold`).acquire();
    await expect.poll(out).toMatch(/gold +mutex +holds/);
    await lease.release();
    await expect.poll(() => out().match(/no lock has a holder/g)).toHaveLength(2);
    child.kill('SIGINT');
    const { code, err } = await end;
    expect([code, err]).toEqual([0, '']);
    // Nothing else is printed.
    expect(out().match(/no election has a participant/g)).toHaveLength(3);
  });

  it('continues while the ensemble is unreachable', async () => {
    const { child, out, end } = start(['watch', '--json', '--every', '100']);
    await expect.poll(out).toContain('"locks"');
    await server.stop();
    await expect.poll(out).toContain('"error"');
    await server.start();
    await expect.poll(() => out().trimEnd().split('\n').at(-1)).toContain('"locks"');
    child.kill('SIGTERM');
    expect((await end).code).toBe(0);
  });
});

describe('revoke', () => {
  it('requests revocation from the holder of a key, which keeps the lock', async () => {
    const namespace = server.path('revoked');
    const client = await connect();
    const lease = await new Mutex(client, `${namespace}/locks/a%2Fb`).acquire();
    const { revocation } = lease;
    const { code, out } = await cli('revoke', 'a/b', '--namespace', namespace);
    expect(code).toBe(0);
    expect(out).toMatch(/^asked \/.*-lock-0000000000\n$/);
    await aborted(revocation);
    expect(lease.held).toBe(true);
    const shown = await cli('locks', '--namespace', namespace);
    expect(shown.out).toContain('holds, revoke requested');
  });

  it('requests revocation from one participant only', async () => {
    const path = server.path('one');
    const [client, other] = await Promise.all([connect(), connect()]);
    const [one, two] = await Promise.all(
      [client, other].map((each) => new ReadWriteLock(each, path).read.acquire()),
    );
    const both = [one!.revocation, two!.revocation];
    const [first] = await new ReadWriteLock(client, path).read.participants();
    const { code, out } = await cli('revoke', path, '--participant', first!.path);
    expect([code, out]).toEqual([0, `asked ${first!.path}\n`]);
    await Promise.any(both.map(aborted));
    expect(both.filter((signal) => signal.aborted)).toHaveLength(1);
  });

  it('fails if no participant holds the key', async () => {
    const { code, err } = await cli('revoke', server.path('nobody'));
    expect(code).toBe(1);
    expect(err).toMatch(/^nestjs-zookeeper: nobody holds \/test-/);
  });
});

describe('the command line', () => {
  it.each([
    [[], 'a command is missing'],
    [['lcoks'], 'unknown command lcoks'],
    [['revoke'], 'revoke needs the key or the path of a lock'],
    [['locks', 'x'], 'unexpected argument x'],
    [['locks', '--every', '500'], '--every is an option of watch'],
    [['watch', '--every', '5'], '--every must be milliseconds, from 100'],
    [['locks', '--path', 'x'], '--path must be the path of a znode below the root'],
    [['locks', '--wrong'], "Unknown option '--wrong'"],
    [['locks', '--auth', 'digest:secret'], 'the credentials must be digest:user:password'],
    [['locks', '--ca', '/nowhere.pem'], '--ca: ENOENT'],
    [['locks', '--zookeeper', 'a:b'], 'connectString must be'],
  ])('rejects %j: %s', async (args, said) => {
    const { code, out, err } = await cli(...args);
    expect([code, out]).toEqual([2, '']);
    expect(err).toContain(`nestjs-zookeeper: ${said}`);
    expect(err).not.toContain('secret');
  });

  it('prints its usage with --help', async () => {
    const { code, out } = await cli('--help');
    expect(code).toBe(0);
    for (const command of ['locks', 'leaders', 'watch', 'revoke']) expect(out).toContain(command);
  });

  it('requires the address of an ensemble', async () => {
    const { code, err } = await start(['locks'], { ZOOKEEPER: '' }).end;
    expect([code, err]).toEqual([2, expect.stringContaining('--zookeeper is missing')]);
    const away = await cli('locks', '--zookeeper', '127.0.0.1:1');
    expect([away.code, away.err]).toEqual([1, expect.stringContaining('127.0.0.1:1')]);
  });

  it('sends its credentials to the ensemble and prints them nowhere', async () => {
    const path = server.path('secret');
    const auth = [{ scheme: 'digest' as const, user: 'ops', password: 'secret' }];
    const acl = [{ scheme: 'auth' as const, id: '', permissions: 'cdrwa' }];
    const client = await connect({ auth, acl });
    await new Mutex(client, path).acquire();
    const refused = await cli('locks', '--path', path);
    expect([refused.code, refused.err]).toEqual([1, expect.stringContaining(path)]);
    const allowed = await start(['locks', '--path', path], { ZOOKEEPER_AUTH: 'digest:ops:secret' })
      .end;
    expect(allowed.code).toBe(0);
    expect(rows(allowed.out)).toHaveLength(1);
    expect(allowed.out + allowed.err).not.toContain('secret:');
  });
});
