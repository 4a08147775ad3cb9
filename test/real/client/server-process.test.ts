import { monitorEventLoopDelay } from 'node:perf_hooks';
import { expect, test } from 'vitest';
import { NodeError, ZkClient } from '../../../lib/client/index.js';
import { useClients, useLinks } from '../../support/clients.js';
import { Link } from '../../support/link.js';
import { RealZooKeeper } from '../../support/real-zookeeper.js';
import { useServer } from '../../support/servers.js';
import { recordStates } from '../../support/sessions.js';

const zk = useServer({ own: true });
// Registered before the hook of the clients, so that it runs after that hook.
const newLink = useLinks(zk);
const connect = useClients(zk);

test('a stopped server process: the client declares the session lost by its clock, and gets a new one when the server continues', async () => {
  const client = await connect({ sessionTimeout: 2000 });
  const session = await client.session();
  const log = recordStates(client);
  const loss = new Promise((resolve) => session.onLost(resolve));
  process.kill(zk.pid!, 'SIGSTOP');
  try {
    await loss;
  } finally {
    process.kill(zk.pid!, 'SIGCONT');
  }
  await log.until('LOST', 'CONNECTED');
});

test('close() during a pause of the server: the server ends the session when it continues', async () => {
  const observer = await connect({ sessionTimeout: 60_000 });
  const client = await connect({ transport: 'wire', sessionTimeout: 60_000 });
  const node = await client.create(zk.path('closed'), '', { mode: 'ephemeral' });
  const { watch } = await observer.watch(node);
  process.kill(zk.pid!, 'SIGSTOP');
  try {
    await client.close();
  } finally {
    process.kill(zk.pid!, 'SIGCONT');
  }
  const continued = performance.now();
  expect(await watch.fired).toBe('deleted');
  // The session would expire after a minute.
  expect(performance.now() - continued).toBeLessThan(30_000);
});

test('close() never blocks the event loop while the server does not reply', async () => {
  const attempt = async () => {
    const link = await newLink();
    const client = await connect({ connectString: link.connectString });
    await link.holdAll();
    const histogram = monitorEventLoopDelay({ resolution: 5 });
    histogram.enable();
    await client.close();
    histogram.disable();
    return histogram.max / 1e6;
  };
  let blocked = await attempt();
  // A machine that stalls looks the same, but does not stall in every attempt.
  for (let i = 0; i < 4 && blocked >= 1000; i++) blocked = await attempt();
  // The native client's own close() would block for one and a half seconds.
  expect(blocked).toBeLessThan(1000);
});

test('connect() accepts IPv6 literals', async () => {
  await using link = await Link.to(zk.port, {}, '::1');
  const client = await connect({ connectString: `[::1]:${link.port}` });
  expect(await client.exists('/')).toBeDefined();
  await client.close();
});

test('a server without extended types refuses a TTL with an error that names the setting', async () => {
  const server = await RealZooKeeper.start({
    config: { extendedTypesEnabled: false },
    jvm: ['-Dzookeeper.extendedTypesEnabled=false'],
  });
  const client = new ZkClient({ connectString: `127.0.0.1:${server.port}` });
  try {
    await client.connect();
    const expected = {
      code: 'UNIMPLEMENTED',
      serverCode: -6,
      message: expect.stringContaining('zookeeper.extendedTypesEnabled=true'),
    };
    const errors = [
      await client.create('/a', '', { ttl: 1000 }).catch((error: unknown) => error),
      await client.transaction([{ create: '/a', ttl: 1000 }]).catch((error: unknown) => error),
    ];
    for (const error of errors) expect(error).toBeInstanceOf(NodeError);
    expect(errors).toMatchObject([expected, { ...expected, index: 0 }]);
  } finally {
    await client.close();
    await server.dispose();
  }
});
