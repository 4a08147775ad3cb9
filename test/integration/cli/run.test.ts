import { describe, expect, it } from 'vitest';
import { Mutex, ReadWriteLock, Semaphore } from 'nestjs-zookeeper/recipes';
import { pidsIn, PROGRAM, untilGone, useCli } from '../../support/cli.js';
import { useClients } from '../../support/clients.js';
import { useLinks } from '../../support/link.js';
import { failureOf, untilNodes } from '../../support/recipe-nodes.js';
import { useServer } from '../../support/servers.js';

const server = useServer();
const connect = useClients(server);
const link = useLinks(server);
const start = useCli(server);

/** Runs a script of the shell under a lock. */
const run = (lock: string, script: string, ...options: string[]) =>
  start(['run', '--lock', lock, ...options, '--', 'sh', '-c', script]);

describe('the command of run', () => {
  it.each([
    ['exit 0', 0],
    ['exit 7', 7],
    ['kill -TERM $$', 143],
    ['kill -KILL $$', 137],
  ])('%s: the exit code is %i, and the lock is free', async (script, code) => {
    const lock = server.path('exit-code');
    expect(await run(lock, script).ended).toEqual({ code, out: '', err: '' });
    const lease = await new Mutex(await connect(), lock).tryAcquire();
    expect(lease?.held).toBe(true);
  });

  it.each([
    ['nowhere', 127],
    ['/', 126],
  ])('%s: the exit code is %i', async (file, code) => {
    const lock = server.path('not-found');
    expect(await start(['run', '--lock', lock, file]).ended).toEqual({
      code,
      out: '',
      err: expect.stringMatching(`^nestjs-zookeeper: .*${file}: .*\n$`),
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

  it('gets no fencing token for a permit', async () => {
    const args = ['run', '--lock', server.path('permit'), '--semaphore', '2'];
    const { code, out } = await start([...args, 'sh', '-c', 'echo "<$ZK_FENCING_TOKEN>"']).ended;
    expect([code, out]).toEqual([0, '<>\n']);
  });

  it('has a documented exit code although the standard error is full', async () => {
    const line = `"$@" 2>/dev/full`;
    const args = ['run', '--lock', server.path('full'), '--zookeeper', '127.0.0.1:1', 'true'];
    const { code } = await start.program('sh', [
      '-c',
      line,
      'sh',
      process.execPath,
      PROGRAM,
      ...args,
    ]).ended;
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
    const args = ['run', '--lock', lock, '--session-timeout', '1s', '--', 'sh', '-c', script];
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

describe('the command line of run', () => {
  it.each([
    [['run', 'true'], "required option '--lock <key>' not specified"],
    [['run', '--lock', 'a'], "missing required argument 'command'"],
    [['run', '--lock', '', 'true'], '--lock must be a non-empty string'],
    [['run', '--lock', '/a/', 'true'], '--lock must be a znode path without a slash at its end'],
    [['run', '--lock', 'a', '--wait', '3', 'true'], "'--wait <duration>' argument '3' is invalid"],
    [['run', '--lock', 'a', '--semaphore', '0', 'true'], "argument '0' is invalid"],
    [['run', '--lock', 'a', '--read', '--write', 'true'], "'--read' cannot be used with option"],
    [['run', '--lock', 'a', '--hold-at-most', '0', 'true'], 'It must be longer than 0.'],
    [
      ['run', '--lock', 'a', '--hold-at-least', '2s', '--hold-at-most', '1s', 'true'],
      '--hold-at-least must not be longer than --hold-at-most',
    ],
    [['run', '--lock', '--', 'true'], '--lock is followed by --, not by a value'],
    [['run', '--lock', 'a', ''], 'the command is an empty string'],
    [['run', '--lock', '/a/', '--zookeeper', '127.0.0.1:1', 'true'], '--lock must be a znode path'],
    [['elect', 'true'], "required option '--election <name>' not specified"],
    [['elect', '--election', '/', 'true'], 'but is "/"'],
  ])('rejects %j', async (args, message) => {
    const { code, out, err } = await start(args).ended;
    expect([code, out]).toEqual([2, '']);
    expect(err).toContain(message);
  });

  it('fails without a server', async () => {
    const { code, err } = await run('a', 'true', '--zookeeper', '127.0.0.1:1').ended;
    expect([code, err]).toEqual([120, expect.stringContaining('127.0.0.1:1')]);
  });
});

describe('the lock of run', () => {
  it('is exclusive, and a try is refused', async () => {
    const lock = server.path('busy');
    const client = await connect();
    const lease = await new Mutex(client, lock).acquire();
    const name = `nestjs-zookeeper: lock "${lock}"`;
    expect(await run(lock, 'echo no', '--wait', '0').ended).toEqual({
      code: 121,
      out: '',
      err: `${name} is held by others, and --wait is 0\n`,
    });
    expect(await run(lock, 'echo no', '--wait', '50ms').ended).toEqual({
      code: 122,
      out: '',
      err: `${name} was not granted within --wait\n`,
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
    expect((await run(lock, '', '--read', '--wait', '0').ended).code).toBe(0);
    expect((await run(lock, '', '--write', '--wait', '0').ended).code).toBe(121);
  });

  it('is one permit with --semaphore', async () => {
    const namespace = server.path('permits');
    const path = `${namespace}/semaphores/a`;
    const semaphore = new Semaphore(await connect(), path, { permits: 2 });
    const one = await semaphore.acquire();
    const options = ['--semaphore', '2', '--wait', '0', '--namespace', namespace];
    expect(await run('a', 'echo $ZK_LOCK_PATH', ...options).ended).toMatchObject({
      code: 0,
      out: `${path}\n`,
    });
    await semaphore.acquire();
    expect((await run('a', '', ...options).ended).code).toBe(121);
    await one.release();
    expect((await run('a', '', ...options).ended).code).toBe(0);
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
    expect(await ended).toEqual({ code: 0, out: 'granted\n', err: '' });
  });
});
