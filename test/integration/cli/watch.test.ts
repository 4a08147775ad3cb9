import { describe, expect, it } from 'vitest';
import { LeaderLatch, Mutex } from 'nestjs-zookeeper/recipes';
import { ConnectionError } from '../../../lib/client/index.js';
import type { LockEvent } from '../../../lib/cli/events.js';
import { PROGRAM, useCli } from '../../support/cli.js';
import { useClients } from '../../support/clients.js';
import { childrenOf, running } from '../../support/processes.js';
import { untilNodes } from '../../support/recipe-nodes.js';
import { useServer } from '../../support/servers.js';

// The tests stop the server and count its watches.
const server = useServer({ own: true });
const connect = useClients(server);
const cli = useCli(server);

/** Starts a watch of a namespace, and resolves when it has read it once. */
async function start(namespace: string, ...args: string[]) {
  const watching = cli(['watch', '--namespace', namespace, '--every', '100ms', ...args]);
  await expect.poll(() => watching.output.err, { interval: 5 }).toContain(`${namespace}/locks`);
  return watching;
}

describe('watch', () => {
  it('prints a line for each change, and ends with SIGINT', async () => {
    const namespace = server.path('watched');
    const client = await connect();
    const { child, until, ended } = await start(namespace);
    const mutex = new Mutex(client, `${namespace}/locks/gold`);
    const lease = await mutex.acquire({ details: { name: 'shop-1' } });
    await until('granted');
    const waiting = mutex.acquire({ fairness: 'strict' });
    await until('waiting');
    await lease.release();
    const second = await waiting;
    await until('waited');
    const latch = new LeaderLatch(client, `${namespace}/elections/nightly`, { id: 'n0' });
    latch.start();
    await until('elected');
    await latch.close();
    await until('resigned');
    await second.release();
    child.kill('SIGINT');
    const { code, out, err } = await ended;
    expect(code).toBe(0);
    // Nothing else is printed, although the znodes are created and deleted.
    expect(err).toBe(
      `nestjs-zookeeper: locks and elections under ${namespace}/locks, which does not exist, and ${namespace}/semaphores, which does not exist, and ${namespace}/elections, which does not exist\n`,
    );
    const lines = out
      .split('\n')
      .map((line) => line.replace(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ  /, ''));
    const [lock, election] = [
      `namespace ${namespace}  gold (mutex)`,
      `namespace ${namespace}  nightly (election)`,
    ];
    expect(lines.slice(0, 6)).toEqual([
      expect.stringMatching(`^granted   ${escape(lock)}  shop-1 \\(.* pid ${process.pid}\\)$`),
      expect.stringMatching(`^waiting   ${escape(lock)}  .* pid ${process.pid}$`),
      expect.stringMatching(`^released  ${escape(lock)}  shop-1 .*  held \\d+s$`),
      expect.stringMatching(`^granted   ${escape(lock)}  .* pid ${process.pid}  waited \\d+s$`),
      expect.stringMatching(`^elected   ${escape(election)}  n0$`),
      expect.stringMatching(`^resigned  ${escape(election)}  n0  held \\d+s$`),
    ]);
  });

  it('prints events as JSON lines', async () => {
    const namespace = server.path('json');
    const client = await connect();
    const { output, child, ended, until } = await start(namespace, '--json');
    const lease = await new Mutex(client, `${namespace}/locks/a%2Fb`).acquire();
    await until('"granted"');
    await lease.release();
    await until('"released"');
    const events = output.out
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as LockEvent);
    const participant = { pid: process.pid, session: client.sessionId };
    const lock = { namespace, key: 'a/b', path: `${namespace}/locks/a%2Fb`, recipe: 'mutex' };
    expect(events).toMatchObject([
      { event: 'granted', ...lock, participant },
      { event: 'released', ...lock, participant, held: expect.any(Number) },
    ]);
    child.kill('SIGTERM');
    expect((await ended).code).toBe(0);
  });

  it('continues after a restart of the server, and leaves no watch behind', async () => {
    const namespace = server.path('restart');
    const retry = { type: 'fixed', delay: 500, maxRetries: 3 } as const;
    const [client, probe] = await Promise.all([connect(), connect({ transport: 'wire', retry })]);
    await client.ensureContainers(`${namespace}/locks/gold`);
    const { child, output, until, ended } = await start(namespace);
    await server.stop();
    await expect.poll(() => output.err, { interval: 5 }).toContain('connection lost');
    // The reads of the command fail too: the probe retries as often.
    for (let i = 0; i < 2; i++) await expect(probe.exists('/')).rejects.toThrow(ConnectionError);
    await Promise.all([client.close(), probe.close()]);
    await server.start();
    await expect.poll(() => output.err, { interval: 5 }).toContain('connection back');
    const later = await connect();
    const lease = await new Mutex(later, `${namespace}/locks/gold`).acquire();
    await until('granted');
    await lease.release();
    await until('released');
    await later.close();
    child.kill('SIGINT');
    expect((await ended).code).toBe(0);
    await expect.poll(() => server.watchCount()).toBe(0);
  });

  it('ends with SIGINT while the server is away', async () => {
    const namespace = server.path('away');
    const { child, output, ended } = await start(namespace);
    await server.stop();
    await expect.poll(() => output.err, { interval: 5 }).toContain('connection lost');
    child.kill('SIGINT');
    expect((await ended).code).toBe(0);
    await server.start();
  });

  it('ends at the first event after its reader has gone', async () => {
    const namespace = server.path('head');
    const client = await connect();
    const command = `watch --namespace ${namespace} --every 100ms`;
    const line = `set -o pipefail; ${process.execPath} ${PROGRAM} ${command} | head -1`;
    const { output, ended } = cli.program('bash', ['-c', line]);
    await expect.poll(() => output.err, { interval: 5 }).toContain('locks and elections');
    let isRunning = true;
    void ended.then(() => (isRunning = false));
    // The reader may end some events after it has printed the first one.
    for (let i = 0; isRunning; i++) await new Mutex(client, `${namespace}/locks/${i}`).acquire();
    const { code, out, err } = await ended;
    expect([code, out.split('\n').length]).toEqual([0, 2]);
    expect(err).not.toContain('EPIPE');
  });

  it('ends although its reader has stopped to read', async () => {
    const namespace = server.path('full');
    const path = `${namespace}/locks/gold`;
    const [client, other] = await Promise.all([connect(), connect()]);
    await new Mutex(client, path).acquire();
    const details = { text: 'x'.repeat(3000) };
    for (let i = 0; i < 100; i++) {
      new Mutex(other, path).acquire({ fairness: 'strict', details }).catch(() => {});
    }
    await untilNodes(client, path, 101);
    const watching = `${process.execPath} ${PROGRAM} watch --json --namespace ${namespace}`;
    const line = `(${watching} & echo "pid $!." >&2; wait $!; echo "code $?" >&2) | (read -r line; echo read >&2; exec sleep 1000)`;
    const { child, output } = cli.program('bash', ['-c', line]);
    const err = () => output.err;
    await expect.poll(err, { interval: 5 }).toContain('locks and elections');
    // More events than the pipe has room for.
    await other.close();
    await expect.poll(err, { interval: 5 }).toContain('read\n');
    process.kill(Number(/pid (\d+)\./.exec(err())![1]), 'SIGTERM');
    await expect.poll(err, { interval: 5 }).toContain('code 0');
    process.kill(-child.pid!, 'SIGKILL');
  });

  it('ends when its terminal is closed', async () => {
    const namespace = server.path('closed');
    const line = `exec ${process.execPath} ${PROGRAM} watch --namespace ${namespace}`;
    const { child, until } = cli.program('script', ['-qec', line, '/dev/null']);
    await until('not exist');
    const [pid] = childrenOf(child.pid!);
    child.kill('SIGKILL');
    await expect.poll(() => running([pid!]), { interval: 5 }).toEqual([]);
  });

  it('redraws a terminal within its size, until Ctrl-C', async () => {
    const namespace = server.path('terminal');
    const client = await connect();
    const command = `watch --namespace ${namespace} --every 100ms`;
    const line = `stty cols 60 rows 12; exec ${process.execPath} ${PROGRAM} ${command}`;
    const { child, output, ended, until } = cli.program('script', ['-qec', line, '/dev/null'], {
      env: { TERM: 'xterm', NO_COLOR: '1' },
    });
    await until('not exist');
    for (const key of ['a', 'b', 'c', 'd', 'e']) {
      await new Mutex(client, `${namespace}/locks/${key}`).acquire({
        details: { name: 'x'.repeat(100) },
      });
    }
    const lastFrame = () => output.out.split('\x1b[H').at(-1)!;
    await expect.poll(lastFrame, { interval: 5 }).toContain('more lines');
    const lines = lastFrame()
      .replaceAll(/\x1b\[\w/g, '')
      .split('\r\n');
    // The last line of the terminal stays empty.
    expect(lines.slice(0, -1)).toHaveLength(11);
    expect(lines).toContain(`namespace ${namespace}`);
    expect(lines[10]).toMatch(/^… \d+ more lines$/);
    for (const each of lines) expect(each.length).toBeLessThanOrEqual(60);
    // Nothing is erased before it is drawn again.
    expect(output.out).not.toContain('\x1b[2J');
    child.stdin!.write('\x03');
    expect((await ended).code).toBe(0);
  });
});

function escape(text: string): string {
  return text.replaceAll(/[()]/g, String.raw`\$&`);
}
