import { chmod, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { BadOptionError, LockService } from 'nestjs-zookeeper';
import { Mutex, ZkClient } from 'nestjs-zookeeper/recipes';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { transport } from '../../support/environment.js';
import { killedHolder } from '../../support/killed-holder.js';
import { loseSession, useApps } from '../../support/nest-apps.js';
import { failureOf } from '../../support/recipe-nodes.js';
import { useServer } from '../../support/servers.js';

const server = useServer();
const apps = useApps(server);
const clients: ZkClient[] = [];
let directory: string;
let sessionFile: string;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'session-file-'));
  sessionFile = join(directory, 'session');
});
afterEach(async () => {
  await Promise.all(clients.splice(0).map((client) => client.close()));
  await rm(directory, { recursive: true });
});

/** Longer than a test may take: what is free before was not released by a timeout. */
const sessionTimeout = 40_000;
const options = () => ({
  connectString: server.connectString,
  transport,
  sessionTimeout,
  sessionFile,
});

async function connect(file = sessionFile): Promise<ZkClient> {
  const client = new ZkClient({ ...options(), sessionFile: file });
  clients.push(client);
  await client.connect();
  return client;
}

const contentOf = async () =>
  JSON.parse(await readFile(sessionFile, 'utf8')) as Record<string, unknown>;

describe('with sessionFile, a client', () => {
  it('ends the session of the previous process before connect() resolves', async () => {
    const path = server.path('gold');
    const { session } = await killedHolder({ ...options(), path });
    expect(await contentOf()).toMatchObject({ id: session });
    const client = await connect();
    await using lease = await new Mutex(client, path).acquire({ wait: 0 });
    expect(lease.held).toBe(true);
    expect(await contentOf()).toMatchObject({ id: client.sessionId, pid: process.pid });
  });

  it('works in ZkModule.forRoot', async () => {
    const namespace = server.path('shop');
    await killedHolder({ ...options(), path: `${namespace}/locks/gold` });
    const app = await apps.start({}, { ...options(), namespace });
    expect(await app.get(LockService).withLock('gold', { wait: 0 }, () => 'locked')).toBe('locked');
  });

  it('writes a file for its owner only, and deletes it when it is closed', async () => {
    const client = await connect();
    expect((await stat(sessionFile)).mode & 0o777).toBe(0o600);
    await client.close();
    expect(await failureOf(stat(sessionFile))).toMatchObject({ code: 'ENOENT' });
    await connect();
  });

  it('writes each new session into the file', async () => {
    const client = await connect();
    const { id } = await client.session();
    await loseSession(server, client);
    const session = await client.session();
    expect(session.id).not.toBe(id);
    expect(await contentOf()).toMatchObject({ id: session.id });
  });

  it('connects if the session in the file is over', async () => {
    const over = { host: hostname(), pid: process.pid, id: 'abc', password: '00'.repeat(16) };
    await writeFile(sessionFile, JSON.stringify(over), { mode: 0o600 });
    const client = await connect();
    expect(client.state).toBe('CONNECTED');
  });

  it('connects once a file that was refused is removed', async () => {
    await writeFile(sessionFile, 'not JSON', { mode: 0o600 });
    const client = new ZkClient(options());
    clients.push(client);
    await expect(client.connect()).rejects.toThrow(BadOptionError);
    await rm(sessionFile);
    await client.connect();
    expect(client.state).toBe('CONNECTED');
  });

  it('ends the session of a process of another host, whatever its process id is', async () => {
    const path = server.path('gold');
    await killedHolder({ ...options(), path });
    const elsewhere = { ...(await contentOf()), host: 'elsewhere', pid: process.ppid };
    await writeFile(sessionFile, JSON.stringify(elsewhere));
    await using lease = await new Mutex(await connect(), path).acquire({ wait: 0 });
    expect(lease.held).toBe(true);
  });
});

describe('sessionFile is refused, and the message says what to do,', () => {
  const refused = async (file = sessionFile): Promise<Error> => {
    const failure = await failureOf(connect(file));
    expect(failure).toBeInstanceOf(BadOptionError);
    expect(failure).toMatchObject({ option: 'sessionFile', value: file });
    return failure as Error;
  };

  it('if another connection of the process uses it', async () => {
    const client = await connect();
    expect((await refused()).message).toMatch(/no other connection uses/);
    expect(client.state).toBe('CONNECTED');
    await client.close();
    await connect();
  });

  it('if another process of the host uses it', async () => {
    const other = { host: hostname(), pid: process.ppid, id: 'abc', password: 'def' };
    await writeFile(sessionFile, JSON.stringify(other), { mode: 0o600 });
    expect((await refused()).message).toContain(`process ${process.ppid} uses it`);
  });

  it.skipIf(process.platform === 'win32')('if others may read it', async () => {
    await writeFile(sessionFile, '{}');
    await chmod(sessionFile, 0o644);
    expect((await refused()).message).toContain('chmod 600');
  });

  it.each(['', '{}', '{"pid": 1, "id": "/", "password": "00"}'])(
    'if it has other content: %j',
    async (content) => {
      await writeFile(sessionFile, content, { mode: 0o600 });
      expect((await refused()).message).toContain('delete it');
    },
  );

  it('if its directory does not exist', async () => {
    expect((await refused(join(directory, 'none', 'session'))).message).toContain('may read');
  });

  it.each(['', 5, 'a\0b'])('if it is not a path: %j', (path) => {
    const create = () => new ZkClient({ ...options(), sessionFile: path as string });
    expect(create).toThrow(/sessionFile must be the path of a file/);
  });
});
