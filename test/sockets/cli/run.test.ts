import { hostname } from 'node:os';
import { describe, expect, it } from 'vitest';
import { Mutex, ReadWriteLock, Semaphore } from 'nestjs-zookeeper/recipes';
import { pidsIn, PROGRAM, runCli, untilGone, useCli } from '../../support/cli.js';
import { useClients, useLinks } from '../../support/clients.js';
import { killedHolder } from '../../support/killed-holder.js';
import { failureOf, untilNodes } from '../../support/recipe-nodes.js';
import { useServer } from '../../support/servers.js';

const server = useServer();
const connect = useClients(server);
const link = useLinks(server);
const start = useCli(server);

/** Runs a script of the shell under a lock. */
const run = (lock: string, script: string, ...options: string[]) =>
  start(['run', '--lock', lock, ...options, '--', 'sh', '-c', script]);

/** Runs a script in this process, so that the script's output is not captured. */
const runHere = (lock: string, script: string, ...options: string[]) =>
  runCli(['run', '--lock', lock, ...options, '--', 'sh', '-c', script], {
    ZOOKEEPER: server.connectString,
  });

describe('the command of run', () => {
  it.each([
    ['exit 7', 7],
    ['kill -TERM $$', 143],
  ])('%s: the exit code is %i, and the lock is free', async (script, code) => {
    const lock = server.path('exit-code');
    expect(await runHere(lock, script)).toEqual({ code, out: '', err: '' });
    const lease = await new Mutex(await connect(), lock).tryAcquire();
    expect(lease?.held).toBe(true);
  });

  it.each([
    ['nowhere', 127, 'nowhere was not found: no directory of PATH has a file of this name'],
    ['./nowhere', 127, './nowhere was not found: there is no such file'],
    ['/', 126, '/ cannot be executed: /: it is not a file'],
    ['/etc/passwd', 126, '/etc/passwd cannot be executed: /etc/passwd: permission denied'],
  ])('%s: the exit code is %i', async (file, code, message) => {
    const lock = server.path('not-found');
    // A folder in PATH that the user may not enter would be another reason for the failure.
    const env = { PATH: '/usr/bin:/bin' };
    expect(await start(['run', '--lock', lock, file], { env }).ended).toEqual({
      code,
      out: '',
      err: `nestjs-zookeeper: ${message}\n`,
    });
    await untilNodes(await connect(), lock, 0);
  });

  it('gets its standard input, its arguments, and the lock as environment variables', async () => {
    const namespace = server.path('env');
    const print = 'echo $ZK_LOCK_KEY $ZK_LOCK_PATH $ZK_FENCING_TOKEN "$@"; cat; echo bad >&2';
    const args = ['run', '--namespace', namespace, '--lock', 'a/b', 'sh', '-c', print, 'sh'];
    const tokens: bigint[] = [];
    for (const option of ['--wait', '--lock']) {
      const { child, ended } = start([...args, option, '--', '1 2']);
      child.stdin!.end('input\n');
      const { code, out, err } = await ended;
      expect([code, err]).toEqual([0, 'bad\n']);
      const [, token] = /^a\/b \S+\/locks\/a%2Fb (\d+) (--\w+) -- 1 2\ninput\n$/.exec(out)!;
      tokens.push(BigInt(token!));
    }
    expect(tokens[1]).toBeGreaterThan(tokens[0]!);
  });

  it('does not get the credentials for the ensemble', async () => {
    const env = {
      ZOOKEEPER: server.connectString,
      ZOOKEEPER_AUTH: 'digest:ops:secret',
      OTHER: 'passed on',
    };
    const script = 'echo "$OTHER" "${ZOOKEEPER_AUTH-unset}"';
    const { ended } = start(['run', '--lock', server.path('auth'), 'sh', '-c', script], { env });
    expect(await ended).toEqual({ code: 0, out: 'passed on unset\n', err: '' });
  });

  it('has a documented exit code although the standard error is full', async () => {
    const command = [process.execPath, PROGRAM, 'run', '--lock', 'a', 'true'];
    const { code } = await start.program('sh', ['-c', '"$@" 2>/dev/full', 'sh', ...command], {
      env: { ZOOKEEPER: '127.0.0.1:1' },
    }).ended;
    expect(code).toBe(120);
  });

  it('is named in the details of the holder', async () => {
    const lock = server.path('named');
    const { child, until, ended } = run(lock, 'echo started; read _');
    await until('started');
    const holders = await new Mutex(await connect(), lock).participants();
    expect(holders).toMatchObject([{ state: 'holding', pid: child.pid, details: { name: 'sh' } }]);
    child.stdin!.end();
    await ended;
  });

  it('may write more than a pipe takes while nobody reads', async () => {
    const lock = server.path('full-pipe');
    const script = 'yes | head -c 1000000; yes | head -c 1000000 >&2';
    const args = ['run', '--lock', lock, '--session-timeout', '2s', '--', 'sh', '-c', script];
    const { child, ended, output } = start(args, { reads: false });
    const client = await connect();
    await untilNodes(client, lock, 1);
    // Longer than the session could live without heartbeats.
    const refusal = await failureOf(new Mutex(client, lock).acquire({ wait: 3000 }));
    expect(refusal).toMatchObject({ code: 'TIMEOUT' });
    for (const name of ['stdout', 'stderr'] as const) {
      child[name]!.on('data', (data: Buffer) => (output.out += data.toString()));
    }
    expect((await ended).code).toBe(0);
    expect(output.out).toHaveLength(2_000_000);
  });
});

describe('the lock of run', () => {
  it('is exclusive, and a try is refused', async () => {
    const lock = server.path('busy');
    const client = await connect();
    const lease = await new Mutex(client, lock).acquire();
    const holder = `${hostname()} pid ${process.pid}`;
    const name = `nestjs-zookeeper: lock "${lock}"`;
    expect(await runHere(lock, 'echo no', '--wait', '0')).toEqual({
      code: 121,
      out: '',
      err: `${name} is held by ${holder}, and --wait is 0\n`,
    });
    expect(await runHere(lock, 'echo no', '--wait', '50ms')).toEqual({
      code: 122,
      out: '',
      err: `${name} was not granted within --wait: it is held by ${holder}\n`,
    });
    await untilNodes(client, lock, 1);
    const waiting = run(lock, 'echo granted');
    await untilNodes(client, lock, 2);
    await lease.release();
    expect(await waiting.ended).toMatchObject({ code: 0, out: 'granted\n' });
  });

  it('is shared by readers, and not with a writer', async () => {
    const lock = server.path('shared');
    await new ReadWriteLock(await connect(), lock).read.acquire();
    expect((await runHere(lock, '', '--read', '--wait', '0')).code).toBe(0);
    expect((await runHere(lock, '', '--write', '--wait', '0')).code).toBe(121);
  });

  it('is one permit with --semaphore', async () => {
    const namespace = server.path('permits');
    const path = `${namespace}/semaphores/a`;
    const semaphore = new Semaphore(await connect(), path, { permits: 2 });
    await semaphore.acquire();
    const options = ['--semaphore', '2', '--wait', '0', '--namespace', namespace];
    expect(await run('a', 'echo "$ZK_LOCK_PATH<$ZK_FENCING_TOKEN>"', ...options).ended).toEqual({
      code: 0,
      out: `${path}<>\n`,
      err: '',
    });
    await semaphore.acquire();
    expect((await runHere('a', '', ...options)).code).toBe(121);
  });

  it('is kept until a command has ended that exceeds --hold-at-most', async () => {
    const lock = server.path('at-most');
    const script = `trap 'echo term; read _; exit' TERM; echo started; while :; do sleep 0.05; done`;
    const options = ['--hold-at-most', '2s', '--grace', '1h'];
    const { child, until, ended } = run(lock, script, ...options);
    await until('term');
    const mutex = new Mutex(await connect(), lock);
    expect(await mutex.tryAcquire()).toBeUndefined();
    child.stdin!.end();
    const { code, err } = await ended;
    expect(code).toBe(123);
    expect(err).toContain(
      `nestjs-zookeeper: lock "${lock}" was held for --hold-at-most; the command is stopped\n`,
    );
    expect(await mutex.tryAcquire()).toBeDefined();
  });

  it('is kept for --hold-at-least, unless a signal ends the process', async () => {
    const lock = server.path('at-least');
    const { child, until, ended, output } = run(lock, 'echo pids $$', '--hold-at-least', '1h');
    await until('\n');
    await untilGone(pidsIn(output.out));
    const mutex = new Mutex(await connect(), lock);
    expect(await mutex.tryAcquire()).toBeUndefined();
    child.kill('SIGTERM');
    expect((await ended).code).toBe(0);
    expect(await mutex.tryAcquire()).toBeDefined();
  });
});

describe('the wait of run', () => {
  it('names the holder after a second', async () => {
    const lock = server.path('note');
    const lease = await new Mutex(await connect(), lock).acquire({ details: { name: 'report' } });
    const { ended, output } = run(lock, 'echo granted');
    const holder = `report (${hostname()} pid ${process.pid})`;
    const line = `nestjs-zookeeper: waiting for lock "${lock}", which is held by ${holder}\n`;
    await expect.poll(() => output.err, { interval: 10 }).toBe(line);
    await lease.release();
    expect(await ended).toEqual({ code: 0, out: 'granted\n', err: line });
  });

  it('says that the holder has ended', async () => {
    const lock = server.path('ended');
    const { pid } = await killedHolder({ connectString: server.connectString, path: lock });
    const { code, err } = await runHere(lock, '', '--wait', '0');
    expect(code).toBe(121);
    expect(err).toContain(`is held by ${hostname()} pid ${pid}, which has ended, and --wait is 0`);
  });

  it('outlives a session that is lost', async () => {
    const lock = server.path('reconnects');
    const client = await connect();
    const lease = await new Mutex(client, lock).acquire();
    const network = await link();
    const options = ['--session-timeout', '1s', '--zookeeper', network.connectString];
    const { ended } = run(lock, 'echo granted', ...options);
    await untilNodes(client, lock, 2);
    await network.down();
    await untilNodes(client, lock, 1);
    // Longer than the first connection may take.
    const refusal = await failureOf(new Mutex(await connect(), lock).acquire({ wait: 3000 }));
    expect(refusal).toMatchObject({ code: 'TIMEOUT' });
    await network.up();
    await untilNodes(client, lock, 2);
    await lease.release();
    expect(await ended).toMatchObject({ code: 0, out: 'granted\n' });
  });
});
