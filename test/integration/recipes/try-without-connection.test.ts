import {
  ConnectionError,
  type Lock,
  Mutex,
  Semaphore,
  type ZkClient,
} from 'nestjs-zookeeper/recipes';
import { describe, expect } from 'vitest';
import { untilState, useClients } from '../../support/clients.js';
import { failureOf } from '../../support/recipe-nodes.js';
import { useServer } from '../../support/servers.js';
import { currentWorld, it, testProcess } from '../../support/virtual-time.js';

const server = useServer();
const connectWith = useClients(server);
const connect = () =>
  connectWith({
    sessionTimeout: 40_000,
    // Without a limit of its own, an acquire would wait for an hour.
    retry: { type: 'forever', delay: 3_600_000 },
  });

async function disconnected(): Promise<ZkClient> {
  const client = await connect();
  await server.stop();
  await untilState(client, 'SUSPENDED');
  return client;
}

describe.each<[string, (client: ZkClient) => Lock]>([
  ['lock', (client) => new Mutex(client, '/gold')],
  ['semaphore', (client) => new Semaphore(client, '/gold', { permits: 1 })],
])('a try for a %s', (noun, lockOf) => {
  it('is rejected after 2 seconds without a connection', async () => {
    const lock = lockOf(await disconnected());
    const started = performance.now();
    const failure = await failureOf(lock.acquire({ wait: 0 }));
    expect(Math.ceil(performance.now() - started)).toBe(2000);
    expect(failure).toBeInstanceOf(ConnectionError);
    expect(failure).toMatchObject({
      key: '/gold',
      message: `${noun} "/gold" was not acquired: there was no connection for 2000 ms; set wait above 0 to wait longer`,
    });
  });

  it('is rejected after 3 seconds if a connected server does not reply', async () => {
    const lock = lockOf(await connect());
    const heal = testProcess().link.cut('both');
    const started = performance.now();
    const failure = await failureOf(lock.acquire({ wait: 0 }));
    expect(Math.ceil(performance.now() - started)).toBe(3000);
    expect(failure).toBeInstanceOf(ConnectionError);
    expect(failure).toMatchObject({
      message: expect.stringContaining('not replied within 3000 ms'),
    });
    heal();
    // The znode of the try is deleted in the background.
    await (await lock.acquire({ wait: 10_000 })).release();
  });

  it('is granted after a pause of the process in which the reply arrived', async () => {
    const lock = lockOf(await connect());
    // After a pause, either the timers or the replies come first.
    for (let round = 0; round < 6; round++) {
      const attempt = lock.acquire({ wait: 0 });
      const process = testProcess();
      process.pause();
      currentWorld().at(currentWorld().now + 3300, () => process.resume());
      await (await attempt).release();
    }
  });

  it('is cancelled by its signal', async () => {
    const lock = lockOf(await disconnected());
    const cancelling = new AbortController();
    const failure = failureOf(lock.acquire({ wait: 0, signal: cancelling.signal }));
    cancelling.abort();
    expect(await failure).toMatchObject({ code: 'CANCELLED' });
  });
});
