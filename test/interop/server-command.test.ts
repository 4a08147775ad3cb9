import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { freePort } from '../support/real-zookeeper.js';
import { useServerCommand } from '../support/server-command.js';
import { KAZOO_SCENARIOS, PYTHON, ZK_CLI } from './programs.js';

const start = useServerCommand();
let data: string;
beforeEach(() => (data = mkdtempSync(join(tmpdir(), 'data-'))));
afterEach(() => rmSync(data, { recursive: true, force: true }));

// The server does not depend on the project.
describe.skipIf(process.env.ZK_SERVER === 'real')('nestjs-zookeeper server --data serves', () => {
  test('kazoo, which keeps its session over kill -9 and a restart', async () => {
    const args = ['--port', String(await freePort()), '--data', data, '--json'];
    const killed = start(...args);
    const { connectString } = await killed.started;
    const kazoo = spawn(PYTHON, [KAZOO_SCENARIOS, connectString, 'restart'], { timeout: 100_000 });
    const [output, errors] = [text(kazoo.stdout), text(kazoo.stderr)];
    await once(kazoo.stdout, 'data');
    killed.child.kill('SIGKILL');
    await killed.ended;
    await start(...args).started;
    kazoo.stdin.end('restarted\n');
    expect(await errors).toBe('');
    expect(await output).toBe('ready\ndone\n');
  });

  test("ZooKeeper's own command line, which finds its znodes again", async () => {
    const args = ['--port', '0', '--data', data, '--json'];
    const zkCli = async (command: string) => {
      const server = start(...args);
      const { connectString } = await server.started;
      const { stdout, stderr } = await promisify(execFile)(
        ZK_CLI,
        ['-server', connectString, ...command.split(' ')],
        { timeout: 100_000 },
      );
      server.child.kill('SIGKILL');
      await server.ended;
      return stdout + stderr;
    };
    expect(await zkCli('create /cli kept')).toContain('Created /cli');
    expect(await zkCli('get -s /cli')).toMatch(/^kept$[^]*^dataVersion = 0$/m);
  });
});
