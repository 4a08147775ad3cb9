import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chownSync } from 'node:fs';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePorts } from '../faults/real-server.mjs';

/** The folder of Debian with the programs of each version. */
const VERSIONS = '/usr/lib/postgresql';

/** A PostgreSQL server on loopback with its own data directory. */
export class PrivatePostgres implements AsyncDisposable {
  private constructor(
    readonly url: string,
    private readonly dispose: () => Promise<void>,
  ) {}

  static async start(): Promise<PrivatePostgres> {
    const [version] = (await readdir(VERSIONS)).sort((a, b) => Number(b) - Number(a));
    const program = (name: string) => join(VERSIONS, version!, 'bin', name);
    const directory = await mkdtemp(join(tmpdir(), 'postgres-'));
    const data = join(directory, 'data');
    const user = unprivilegedUser();
    if (user) chownSync(directory, user.uid, user.gid);
    const installed = spawnSync(
      program('initdb'),
      ['--pgdata', data, '--username=shop', '--auth=trust', '--no-sync', '--encoding=UTF8'],
      { ...user, cwd: directory, encoding: 'utf8' },
    );
    if (installed.status !== 0) throw new Error(installed.stderr);
    const [port] = await freePorts(1);
    const settings = [
      'listen_addresses=127.0.0.1',
      `port=${port}`,
      'unix_socket_directories=',
      'fsync=off',
    ];
    const server = spawn(
      program('postgres'),
      ['-D', data, ...settings.flatMap((setting) => ['-c', setting])],
      { ...user, cwd: directory, stdio: ['ignore', 'ignore', 'pipe'] },
    );
    const exited = once(server, 'exit');
    let log = '';
    for await (const chunk of server.stderr.iterator({ destroyOnReturn: false })) {
      log += chunk;
      if (log.includes('ready to accept connections')) break;
    }
    if (server.exitCode !== null) throw new Error(log);
    server.stderr.resume();
    return new PrivatePostgres(`postgres://shop@127.0.0.1:${port}/postgres`, async () => {
      // The server waits until the clients have closed their connections, which would emit errors otherwise.
      server.kill('SIGTERM');
      await exited;
      await rm(directory, { recursive: true, force: true });
    });
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.dispose();
  }
}

/** Returns the user for a server that refuses to run as root; undefined if this process does not run as root. */
function unprivilegedUser(): { uid: number; gid: number } | undefined {
  if (process.getuid!() !== 0) return undefined;
  const id = (option: string) =>
    Number(spawnSync('id', [option, 'postgres'], { encoding: 'utf8' }).stdout);
  return { uid: id('-u'), gid: id('-g') };
}
