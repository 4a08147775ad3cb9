import { spawn, spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir, userInfo } from 'node:os';
import { join } from 'node:path';
import { freePorts } from '../faults/real-server.mjs';
import { type PrivateServer, untilReady } from './private-server.js';

const SERVER = ['/usr/sbin/mariadbd', '/usr/bin/mariadbd'].find(existsSync);
const INSTALL = '/usr/bin/mariadb-install-db';

/** Starts a MariaDB server. */
export async function startMariaDb(): Promise<PrivateServer> {
  const directory = await mkdtemp(join(tmpdir(), 'mariadb-'));
  const data = join(directory, 'data');
  const user = `--user=${userInfo().username}`;
  const installed = spawnSync(
    INSTALL,
    ['--no-defaults', user, `--datadir=${data}`, '--auth-root-authentication-method=normal'],
    { encoding: 'utf8' },
  );
  if (installed.status !== 0) throw new Error(installed.stderr);
  const [port] = await freePorts(1);
  const bootstrap = join(directory, 'bootstrap.sql');
  await writeFile(
    bootstrap,
    // The server reads one statement per line.
    `CREATE DATABASE shop;
CREATE USER shop@'127.0.0.1' IDENTIFIED BY 'shop';
GRANT ALL ON shop.* TO shop@'127.0.0.1';
GRANT PROCESS ON *.* TO shop@'127.0.0.1';
`,
  );
  const server = spawn(
    SERVER!,
    [
      '--no-defaults',
      user,
      `--datadir=${data}`,
      '--bind-address=127.0.0.1',
      '--skip-name-resolve',
      `--port=${port}`,
      `--socket=${directory}/socket`,
      `--init-file=${bootstrap}`,
    ],
    { stdio: ['ignore', 'ignore', 'pipe'] },
  );
  return untilReady(
    server,
    'ready for connections',
    `mysql://shop:shop@127.0.0.1:${port}/shop`,
    directory,
  );
}
