import { once } from 'node:events';
import { describe, expect, it } from 'vitest';
import { Mutex } from 'nestjs-zookeeper/recipes';
import { supervise } from '../../../lib/cli/supervisor.js';
import { pidsIn, untilGone, useCli } from '../../support/cli.js';
import { useClients, useLinks } from '../../support/clients.js';
import { running } from '../../support/processes.js';
import { untilNodes } from '../../support/recipe-nodes.js';
import { useServer } from '../../support/servers.js';

const server = useServer();
const connect = useClients(server);
const link = useLinks(server);
const start = useCli(server);

/** Runs a script of the shell under a lock. */
const run = (lock: string, script: string, ...options: string[]) =>
  start(['run', '--lock', lock, ...options, '--', 'sh', '-c', script]);

describe('a signal to run', () => {
  it.each([
    ['SIGINT', 130],
    ['SIGTERM', 143],
    ['SIGUSR1', 138],
  ] as const)('%s ends its wait and leaves no znode', async (signal, code) => {
    const lock = server.path('waits');
    const client = await connect();
    await new Mutex(client, lock).acquire();
    const { child, ended } = run(lock, 'echo no');
    await untilNodes(client, lock, 2);
    child.kill(signal);
    expect(await ended).toEqual({ code, out: '', err: '' });
    // A shell ends its script at Ctrl-C only if the program was ended by the signal.
    expect(child.signalCode).toBe(signal === 'SIGINT' ? signal : null);
    await untilNodes(client, lock, 1);
  });

  it('ends the attempt to connect', async () => {
    const silent = await link();
    await silent.holdAll();
    const { child, ended } = start([
      'run',
      '--lock',
      'a',
      '--zookeeper',
      silent.connectString,
      'ls',
    ]);
    await expect.poll(() => silent.accepted()).toBe(1);
    child.kill('SIGTERM');
    expect(await ended).toEqual({ code: 143, out: '', err: '' });
  });

  it('is passed on, and the exit code is that of the command', async () => {
    const lock = server.path('passed');
    const script = `
      trap 'echo usr1' USR1
      trap 'echo term; exit 5' TERM
      echo started
      while :; do sleep 0.05; done`;
    const { child, until, ended } = run(lock, script);
    await until('started');
    child.kill('SIGUSR1');
    await until('usr1');
    child.kill('SIGTERM');
    expect(await ended).toMatchObject({ code: 5, out: 'started\nusr1\nterm\n' });
    await untilNodes(await connect(), lock, 0);
  });

  it('reaches the children of a shell, and the lock is held until they have ended', async () => {
    const lock = server.path('children');
    const client = await connect();
    const child = `sh -c 'trap "echo term; read _; exit" TERM; echo pids $PPID $$; while :; do sleep 0.05; done'`;
    const { child: parent, until, ended, output } = run(lock, `${child}; exit`);
    await until('\n');
    const [shell] = pidsIn(output.out);
    parent.kill('SIGTERM');
    await until('term');
    await untilGone([shell!]);
    expect(await new Mutex(client, lock).tryAcquire()).toBeUndefined();
    parent.stdin!.end();
    expect((await ended).code).toBe(143);
    await untilNodes(client, lock, 0);
  });
});

describe('a kill -9', () => {
  it('of the command ends its children, and then releases the lock', async () => {
    const lock = server.path('killed-child');
    const { until, ended, output } = run(lock, 'sleep 1000 & echo pids $$ $!; wait');
    await until('\n');
    const pids = pidsIn(output.out);
    process.kill(pids[0]!, 'SIGKILL');
    expect((await ended).code).toBe(137);
    expect(running(pids)).toEqual([]);
    await untilNodes(await connect(), lock, 0);
  });

  it('of run itself ends the command, and the lock is free when the session has timed out', async () => {
    const lock = server.path('killed-parent');
    const ignores = `
      trap '' TERM USR1
      sleep 1000 &
      trap 'echo usr1' USR1
      echo pids $$ $!
      while :; do wait; done`;
    const client = await connect();
    const options = ['--session-timeout', '2s', '--grace', '1s'];
    const { child, until, output } = run(lock, ignores, ...options);
    await until('\n');
    // `run` handles a signal when it has completely started the command.
    child.kill('SIGUSR1');
    await until('usr1');
    const pids = pidsIn(output.out);
    expect(running(pids)).toEqual(pids);
    child.kill('SIGKILL');
    await untilGone(pids);
    expect((await new Mutex(client, lock).acquire()).held).toBe(true);
  });
});

describe('a lost session', () => {
  it.each([
    ['a sixth of the session timeout by default', {}, 2000],
    ['no time with --grace 0', { grace: 0 }, 0],
  ])(
    'leaves a command %s, so that it ends before another process gets the lock',
    async (_, given, expected) => {
      let grace: number | undefined;
      const options = { zookeeper: server.connectString, sessionTimeout: 12_000, ...given };
      await supervise(options, async (client, supervisor) => {
        expect((await client.session()).timeout).toBe(12_000);
        ({ grace } = supervisor);
        return 0;
      });
      expect(grace).toBe(expected);
    },
  );

  it('stops the command with SIGTERM', async () => {
    const lock = server.path('lost');
    const network = await link();
    const script = `trap 'echo term; exit 5' TERM; echo started; while :; do sleep 0.05; done`;
    const timeouts = ['--session-timeout', '1s', '--grace', '10s'];
    const options = [...timeouts, '--zookeeper', network.connectString];
    const { until, ended } = run(lock, script, ...options);
    await until('started');
    await network.down();
    const { code, out, err } = await ended;
    expect([code, out]).toEqual([123, 'started\nterm\n']);
    expect(err).toMatch(
      /^nestjs-zookeeper: the lease on \/test-.* was lost: .*; the command is stopped$/m,
    );
    await untilNodes(await connect(), lock, 0);
  });

  it('is the reason for a note about a grace that is too long', async () => {
    const options = ['--session-timeout', '4s', '--grace', '1001ms'];
    const { code, err } = await run(server.path('grace'), '', ...options).ended;
    expect(code).toBe(0);
    expect(err).toMatch(
      /^nestjs-zookeeper: --grace is longer than a quarter of the session timeout that the server granted, 4s: /,
    );
  });

  it('ends a command that ignores SIGTERM, and its children, with SIGKILL, while nobody reads the output', async () => {
    const lock = server.path('killed');
    const network = await link();
    const script = `trap '' TERM; yes >&2 & echo pids $$ $!; wait`;
    const options = [
      '--session-timeout',
      '1s',
      '--grace',
      '100ms',
      '--zookeeper',
      network.connectString,
    ];
    const args = ['run', '--lock', lock, ...options, '--', 'sh', '-c', script];
    const { child, output } = start(args, { reads: false });
    child.stdout!.on('data', (data: Buffer) => (output.out += data.toString()));
    await expect.poll(() => output.out).toContain('\n');
    await network.down();
    await untilGone(pidsIn(output.out));
    expect(await once(child, 'exit')).toEqual([123, null]);
  });

  it('does not make the standard error of the command non-blocking', async () => {
    const lock = server.path('blocking');
    const network = await link();
    const script = `trap 'echo term; yes | head -c 1000000 >&2; exit' TERM; echo started; while :; do sleep 0.05; done`;
    const timeouts = ['--session-timeout', '1s', '--grace', '1h'];
    const options = [...timeouts, '--zookeeper', network.connectString];
    const args = ['run', '--lock', lock, ...options, '--', 'sh', '-c', script];
    const { child, ended, output } = start(args, { reads: false });
    child.stdout!.on('data', (data: Buffer) => (output.out += data.toString()));
    await expect.poll(() => output.out).toContain('started');
    await network.down();
    await expect.poll(() => output.out).toContain('term');
    await new Mutex(await connect(), lock).acquire();
    child.stderr!.on('data', (data: Buffer) => (output.err += data.toString()));
    await ended;
    expect(output.err.match(/y\n/g)).toHaveLength(500_000);
  });

  it('is noticed after a pause of run in which the command ended', async () => {
    const lock = server.path('paused');
    const client = await connect();
    const { child, until, ended, output } = run(
      lock,
      'echo pids $$; read _',
      '--session-timeout',
      '1s',
    );
    await until('\n');
    child.kill('SIGSTOP');
    await new Mutex(client, lock).acquire();
    child.stdin!.end();
    await untilGone(pidsIn(output.out));
    child.kill('SIGCONT');
    expect(await ended).toMatchObject({ code: 123, err: expect.stringContaining('was lost') });
  });
});
