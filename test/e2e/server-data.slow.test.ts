import {
  appendFileSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { LockBusyError, ZkClient } from 'nestjs-zookeeper';
import { Mutex } from 'nestjs-zookeeper/recipes';
import { CreateFlag } from '../../lib/protocol/index.js';
import { RawClient } from '../support/raw-client.js';
import { create, exists } from '../support/raw-requests.js';
import { freePort } from '../support/real-zookeeper.js';
import { type ServerProcess, useServerCommand } from '../support/server-command.js';

const NO_NODE = -101;

const start = useServerCommand();
// Blocks of 512 bytes.
const startWithSmallDisk = useServerCommand('ulimit -f 300');
let root: string;
let data: string;
beforeEach(() => {
  root = mkdtempSync(join(realpathSync(tmpdir()), 'server-'));
  data = join(root, 'data');
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

const serve = (...args: string[]) =>
  start('--port', '0', '--json', '--tick-time', '100ms', '--data', data, ...args);

function stop({ child, ended }: ServerProcess, signal: NodeJS.Signals): ServerProcess['ended'] {
  child.kill(signal);
  return ended;
}

/** Creates znodes until the connection ends, with many requests under way. Yields what the server confirms. */
async function* writes(client: RawClient): AsyncGenerator<{ path: string; zxid: number }> {
  const write = () => create(client, '/n-', CreateFlag.sequential).catch(() => undefined);
  const pending = Array.from({ length: 100 }, write);
  for (let reply = await pending.shift(); reply; reply = await pending.shift()) {
    yield { path: reply.body!.path, zxid: reply.zxid };
    pending.push(write());
  }
}

describe('nestjs-zookeeper server --data', () => {
  it('prints its directory and what it guarantees, and unlocks the directory when it ends', async () => {
    const first = serve();
    expect(await first.started).toMatchObject({ data });
    await stop(first, 'SIGTERM');
    const { child, output, ended } = start('--port', '0', '--data', data);
    await expect.poll(() => output.err).toContain('Not for production');
    child.kill('SIGTERM');
    expect((await ended).err).toContain(`Confirmed writes in ${data} survive kill -9`);
    expect(readdirSync(data).sort()).toEqual(['log', 'snapshot']);
  });

  it('has each confirmed write after each kill -9, and never repeats a zxid', async () => {
    const confirmed: string[] = [];
    let last = 0;
    for (let round = 1; round <= 8; round++) {
      const server = serve();
      const { port } = await server.started;
      const client = await RawClient.connect({ port });
      const found = await Promise.all(confirmed.map((path) => exists(client, path)));
      expect(found.filter(({ err }) => err !== 0)).toEqual([]);
      const kill = 500 + Math.floor(Math.random() * 500);
      for await (const { path, zxid } of writes(client)) {
        confirmed.push(path);
        expect(zxid).toBeGreaterThan(last);
        last = zxid;
        if (confirmed.length === round * 1_000 + kill) server.child.kill('SIGKILL');
      }
      await server.ended;
    }
    expect(new Set(confirmed).size).toBe(confirmed.length);
  });

  it.each(['SIGTERM', 'SIGKILL'] as const)(
    'continues the sessions that reconnect after %s, and expires the others',
    async (signal) => {
      const server = serve();
      const { port } = await server.started;
      const kept = await RawClient.connect({ port, timeout: 60_000 });
      const lost = await RawClient.connect({ port, timeout: 1_000 });
      await create(kept, '/kept', CreateFlag.ephemeral);
      const { zxid } = await create(lost, '/lost', CreateFlag.ephemeral);
      await stop(server, signal);

      const next = await serve().started;
      const { sessionId, password } = kept.session;
      const again = await RawClient.connect({
        ...{ port: next.port, timeout: 60_000, lastZxidSeen: zxid },
        ...{ sessionId, password: password! },
      });
      expect(again.session.sessionId).toBe(sessionId);
      expect((await exists(again, '/lost', true)).err).toBe(0);
      await again.untilEvents(1);
      expect((await exists(again, '/lost')).err).toBe(NO_NODE);
      expect((await exists(again, '/kept')).body?.stat.ephemeralOwner).toBe(sessionId);
    },
  );

  it('lets clients keep their locks over a restart; fencing tokens rise', async () => {
    const port = String(await freePort());
    const options = { connectString: `127.0.0.1:${port}` };
    let server = serve('--port', port);
    await server.started;
    const [holder, other] = [new ZkClient(options), new ZkClient(options)];
    await Promise.all([holder.connect(), other.connect()]);
    const mutex = new Mutex(holder, '/locks/a');
    const tokens: bigint[] = [];
    for (const signal of ['SIGKILL', 'SIGTERM', 'SIGKILL'] as const) {
      const lease = await mutex.acquire();
      tokens.push(lease.fencingToken);
      await stop(server, signal);
      server = serve('--port', port);
      await server.started;
      await expect(new Mutex(other, '/locks/a').acquire({ wait: 0 })).rejects.toThrow(
        LockBusyError,
      );
      expect(lease.held).toBe(true);
      await lease.release();
    }
    await Promise.all([holder.close(), other.close()]);
    expect(tokens).toEqual([...new Set(tokens)].sort((a, b) => (a < b ? -1 : 1)));
  });

  it('ends when the disk is full, and has confirmed only what it has kept', async () => {
    // A limit on the size of files stands for the end of the disk.
    const server = startWithSmallDisk('--port', '0', '--json', '--data', data);
    const client = await RawClient.connect({ port: (await server.started).port });
    const confirmed: string[] = [];
    for await (const { path } of writes(client)) confirmed.push(path);
    const { code, err } = await server.ended;
    expect(code).toBe(1);
    expect(err).toContain(
      `\nnestjs-zookeeper: cannot write to the data directory ${data}: EFBIG: file too large, write\n`,
    );
    expect(confirmed.length).toBeGreaterThan(100);
    const next = await serve().started;
    const again = await RawClient.connect({ port: next.port });
    const found = await Promise.all(confirmed.map((path) => exists(again, path)));
    expect(found.filter(({ err }) => err !== 0)).toEqual([]);
  });

  it('refuses a directory that another server uses', async () => {
    const server = serve();
    await server.started;
    expect(await serve().ended).toMatchObject({
      ...{ code: 1, out: '' },
      err: `nestjs-zookeeper: cannot use the data directory ${data}: the server with process id ${server.child.pid} uses it\n`,
    });
  });

  it('starts only one of many servers when the lock is stale', async () => {
    const killed = serve();
    await killed.started;
    await stop(killed, 'SIGKILL');
    const servers = Array.from({ length: 6 }, () => serve());
    const outcomes = await Promise.allSettled(servers.map(({ started }) => started));
    expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
  });

  it('unlocks the directory when its port is in use', async () => {
    const other = await start('--port', '0', '--json').started;
    expect((await serve('--port', String(other.port)).ended).err).toContain('is in use');
    await serve().started;
  });

  it('refuses a path that it cannot use, in one line', async () => {
    const file = join(root, 'file');
    writeFileSync(file, '');
    for (const path of [file, join(file, 'below'), '/sys/zookeeper']) {
      const { code, out, err } = await start('--port', '0', '--data', path).ended;
      expect({ code, out }).toEqual({ code: 1, out: '' });
      expect(err).toMatch(
        new RegExp(`^nestjs-zookeeper: cannot use the data directory ${path}: E[A-Z]+: .*\n$`),
      );
    }
  });

  it('warns about an interrupted write, and names a corrupt file', async () => {
    await stop(await startedServer(), 'SIGKILL');
    appendFileSync(join(data, 'log'), 'torn');
    const server = await startedServer();
    expect((await stop(server, 'SIGTERM')).err).toContain(
      `nestjs-zookeeper: ignored the last 4 bytes of ${data}/log, an incomplete record: they are in ${data}/log.damaged-`,
    );
    const snapshot = readFileSync(join(data, 'snapshot'));
    writeFileSync(join(data, 'snapshot'), snapshot.subarray(0, -1));
    expect(await serve().ended).toMatchObject({
      ...{ code: 1, out: '' },
      err: `nestjs-zookeeper: cannot use the data directory ${data}: ${data}/snapshot is corrupt\n`,
    });
  });

  it('can be started again after two signals', async () => {
    const server = await startedServer();
    server.child.kill('SIGSTOP');
    server.child.kill('SIGTERM');
    server.child.kill('SIGINT');
    server.child.kill('SIGCONT');
    const { code } = await server.ended;
    expect([0, 130, 143]).toContain(code);
    await startedServer();
  });

  async function startedServer(): Promise<ServerProcess> {
    const server = serve();
    await server.started;
    return server;
  }
});
