import { spawn, spawnSync } from 'node:child_process';
import { chownSync } from 'node:fs';
import { mkdtemp, readdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePorts } from '../faults/real-server.mjs';
import { type PrivateServer, untilReady } from './private-server.js';

/** The folder of Debian with the programs of each version. */
const VERSIONS = '/usr/lib/postgresql';

/** Starts a PostgreSQL server. */
export async function startPostgres(): Promise<PrivateServer> {
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
  return untilReady(
    server,
    'ready to accept connections',
    `postgres://shop@127.0.0.1:${port}/postgres`,
    directory,
  );
}

/** Returns the user for a server that refuses to run as root; undefined if this process does not run as root. */
function unprivilegedUser(): { uid: number; gid: number } | undefined {
  if (process.getuid!() !== 0) return undefined;
  const id = (option: string) =>
    Number(spawnSync('id', [option, 'postgres'], { encoding: 'utf8' }).stdout);
  return { uid: id('-u'), gid: id('-g') };
}
