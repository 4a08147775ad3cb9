import { describe, expect, it } from 'vitest';
import { Mutex } from 'nestjs-zookeeper/recipes';
import { useCli } from '../../support/cli.js';
import { useClients } from '../../support/clients.js';
import { untilNodes } from '../../support/recipe-nodes.js';
import { useServer } from '../../support/servers.js';

const server = useServer();
const connect = useClients(server);
const cli = useCli(server);

/** Starts a watch of a namespace, and resolves when it has read it once. */
async function start(namespace: string, ...args: string[]) {
  const watching = cli(['watch', '--namespace', namespace, '--every', '100ms', ...args]);
  await expect.poll(() => watching.output.err, { interval: 5 }).toContain(`${namespace}/locks`);
  return watching;
}

// Other tests of the command are in test/integration/cli.
describe('watch', () => {
  it.each(['SIGINT', 'SIGTERM'] as const)('ends with %s', async (signal) => {
    const namespace = server.path('watched');
    const client = await connect();
    const { child, until, ended } = await start(namespace);
    await new Mutex(client, `${namespace}/locks/gold`).acquire();
    await until('granted');
    child.kill(signal);
    const { code, err } = await ended;
    expect(code).toBe(0);
    expect(err).toBe(
      `nestjs-zookeeper: locks and elections under ${namespace}/locks, which does not exist, and ${namespace}/semaphores, which does not exist, and ${namespace}/elections, which does not exist\n`,
    );
  });

  it('continues after a holder whose data is nested too deep for JSON', async () => {
    const namespace = server.path('deep');
    const path = `${namespace}/locks/gold`;
    const client = await connect();
    const { until } = await start(namespace, '--json');
    await client.ensureContainers(path);
    const data = `{"host":"h","pid":1,"data":${'['.repeat(200_000)}${']'.repeat(200_000)}}`;
    await client.create(`${path}/a-lock-`, data, { mode: 'ephemeral-sequential' });
    await until('more than 100 levels');
    await new Mutex(client, `${namespace}/locks/silver`).acquire();
    await until('"key":"silver"');
  });

  it('ends at the first event after its reader has gone', async () => {
    const namespace = server.path('gone');
    const client = await connect();
    const { child, ended } = await start(namespace);
    child.stdout!.destroy();
    await new Mutex(client, `${namespace}/locks/gold`).acquire();
    const { code, err } = await ended;
    expect(code).toBe(0);
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
    const { child, output } = cli(['watch', '--json', '--namespace', namespace], { reads: false });
    child.stderr!.on('data', (data: Buffer) => (output.err += data.toString()));
    await expect.poll(() => output.err, { interval: 5 }).toContain('locks and elections');
    // More events than the pipe has room for.
    await other.close();
    await expect.poll(() => child.stdout!.readableLength, { interval: 5 }).toBeGreaterThan(0);
    child.kill('SIGTERM');
    await expect.poll(() => child.exitCode, { interval: 5 }).toBe(0);
  });
});
