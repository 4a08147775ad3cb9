import { describe, expect, it } from 'vitest';
import { Mutex } from 'nestjs-zookeeper/recipes';
import { pidsIn, PROGRAM, untilGone, useCli } from '../support/cli.js';
import { useClients } from '../support/clients.js';
import { childrenOf, running } from '../support/processes.js';
import { untilNodes } from '../support/recipe-nodes.js';
import { useServer } from '../support/servers.js';

// These tests need the program `script` of util-linux, which runs a command on a terminal.

const server = useServer();
const connect = useClients(server);
const start = useCli(server);

const COMMAND = `exec '${process.execPath}' '${PROGRAM}'`;

describe('run on a terminal', () => {
  const onTerminal = (lock: string, script: string) =>
    start.program('script', [
      '-qefc',
      `${COMMAND} run --lock ${lock} -- sh -c '${script}'`,
      '/dev/null',
    ]);

  it('Ctrl-C reaches the command once', async () => {
    const lock = server.path('ctrl-c');
    // A shell is faster than `run`. The kernel delivers two signals as one while the first is pending.
    const script = `
      trap "echo interrupted" INT
      trap "exit 4" USR1
      echo pids $PPID
      while :; do read line; done`;
    const { child, until, output, ended } = onTerminal(lock, script);
    await until('\n');
    child.stdin!.write('\x03');
    await until('interrupted');
    // `run` passes signals on in their order.
    process.kill(pidsIn(output.out)[0]!, 'SIGUSR1');
    const { code, out } = await ended;
    expect(code).toBe(4);
    expect(out.match(/interrupted/g)).toHaveLength(1);
    await untilNodes(await connect(), lock, 0);
  });

  it('SIGTERM to run reaches the children of a shell, and the lock is held until they have ended', async () => {
    const lock = server.path('terminal-children');
    const client = await connect();
    const script = `
      sh -c "trap \\"echo term; read _; exit\\" TERM; echo pids \\$\\$ \\$PPID $PPID; while :; do sleep 0.05; done"
      exit`;
    const { child, until, output, ended } = onTerminal(lock, script);
    await until('\n');
    const [, shell, parent] = pidsIn(output.out);
    process.kill(parent!, 'SIGTERM');
    await until('term');
    await untilGone([shell!]);
    expect(await new Mutex(client, lock).tryAcquire()).toBeUndefined();
    child.stdin!.write('\n');
    expect((await ended).code).toBe(143);
    await untilNodes(client, lock, 0);
  });

  it('a closed terminal ends the command, and the lock is free', async () => {
    const lock = server.path('closed');
    const { child, until, output } = onTerminal(lock, 'echo pids $$ $PPID; exec sleep 1000');
    await until('\n');
    child.kill('SIGKILL');
    await untilGone(pidsIn(output.out));
    await untilNodes(await connect(), lock, 0);
  });
});

describe('watch on a terminal', () => {
  it('ends when its terminal is closed', async () => {
    const line = `${COMMAND} watch --namespace ${server.path('closed')}`;
    const { child, until } = start.program('script', ['-qec', line, '/dev/null']);
    await until('not exist');
    const [pid] = childrenOf(child.pid!);
    child.kill('SIGKILL');
    await expect.poll(() => running([pid!]), { interval: 5 }).toEqual([]);
  });

  it('draws the tree within the size of the terminal, until Ctrl-C', async () => {
    const namespace = server.path('terminal');
    const details = { name: 'x'.repeat(100) };
    await new Mutex(await connect(), `${namespace}/locks/a`).acquire({ details });
    const line = `stty cols 60; ${COMMAND} watch --namespace ${namespace}`;
    const { child, output, until, ended } = start.program('script', ['-qec', line, '/dev/null'], {
      env: { TERM: 'xterm', NO_COLOR: '1' },
    });
    await until('holds');
    for (const each of output.out.split('\r\n')) expect(each.length).toBeLessThanOrEqual(70);
    child.stdin!.write('\x03');
    expect((await ended).code).toBe(0);
  });
});

describe('locks on a terminal', () => {
  /** Runs a command on a terminal with 50 columns. */
  const outputOf = async (command: string, env: Record<string, string> = {}) => {
    const line = `stty cols 50; ${COMMAND} ${command}`;
    // Node assumes no colours if CI is set.
    const variables = { TERM: 'xterm', CI: undefined, NODE_OPTIONS: '', ...env };
    const program = start.program('script', ['-qec', line, '/dev/null'], { env: variables });
    return (await program.ended).out;
  };

  it('has colours, unless NO_COLOR is set, and fits its width', async () => {
    const path = server.path('wide');
    const details = { name: 'shop', text: '訂單'.repeat(40) };
    await new Mutex(await connect(), path).acquire({ details });
    expect(await outputOf(`locks --path ${path}`)).toContain('\x1b[32mholds');
    const out = await outputOf(`locks --path ${path}`, { NO_COLOR: '1' });
    expect(out).not.toContain('\x1b[');
    const holds = out.split('\r\n').find((each) => each.includes('holds'))!;
    // How many characters fit depends on the number of digits of the process id.
    expect(holds).toMatch(/[訂單]…? +\d+s$/);
    // Each of these characters has two columns.
    expect(holds.length + holds.match(/[訂單]/g)!.length).toBeLessThanOrEqual(50);
  });
});
