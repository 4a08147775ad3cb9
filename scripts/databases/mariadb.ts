import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir, userInfo } from 'node:os';
import { join } from 'node:path';
import { freePorts } from '../faults/real-server.mjs';

const SERVER = ['/usr/sbin/mariadbd', '/usr/bin/mariadbd'].find(existsSync);
const INSTALL = '/usr/bin/mariadb-install-db';

/** A MariaDB server on loopback with its own data directory. */
export class PrivateMariaDb implements AsyncDisposable {
  private constructor(
    readonly url: string,
    private readonly dispose: () => Promise<void>,
  ) {}

  static async start(): Promise<PrivateMariaDb> {
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
    const exited = once(server, 'exit');
    let log = '';
    for await (const chunk of server.stderr.iterator({ destroyOnReturn: false })) {
      log += chunk;
      if (log.includes('ready for connections')) break;
    }
    if (server.exitCode !== null) throw new Error(log);
    server.stderr.resume();
    return new PrivateMariaDb(`mysql://shop:shop@127.0.0.1:${port}/shop`, async () => {
      server.kill();
      await exited;
      await rm(directory, { recursive: true, force: true });
    });
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.dispose();
  }
}
