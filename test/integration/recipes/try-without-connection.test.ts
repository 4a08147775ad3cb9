import { setTimeout as delay } from 'node:timers/promises';
import {
  type AcquireOptions,
  ConnectionError,
  type Lock,
  MultiLock,
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

const locks: [noun: string, lockOf: (client: ZkClient) => Lock][] = [
  ['lock', (client) => new Mutex(client, '/gold')],
  ['semaphore', (client) => new Semaphore(client, '/gold', { permits: 1 })],
];

describe.each(locks)('a try for a %s', (noun, lockOf) => {
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

describe('an acquire without a connection is rejected after its wait, whatever the retry policy allows:', () => {
  /** Returns the failure of an acquire, and the milliseconds until it. */
  async function timed(acquire: Promise<unknown>) {
    const started = performance.now();
    const { code, message } = (await failureOf(acquire)) as ConnectionError;
    return { code, message, after: Math.round(performance.now() - started) };
  }

  it.each(locks)('of a %s', async (noun, lockOf) => {
    const lock = lockOf(await disconnected());
    const because = 'was not acquired: there was no connection for 700 ms';
    expect(await timed(lock.acquire({ wait: 700 }))).toEqual({
      code: 'CONNECTION',
      message: `${noun} "/gold" ${because}; set wait above 700 to wait longer`,
      after: 700,
    });
  });

  it('of permits with a lease each', async () => {
    const semaphore = new Semaphore(await disconnected(), '/beds', { permits: 2 });
    const acquire = semaphore.acquireEach({ count: 2, wait: 700 });
    expect(await timed(acquire)).toMatchObject({ code: 'CONNECTION', after: 700 });
  });

  it('or, if the connection returns, when the rest of its wait for the holder is over', async () => {
    const client = await connect();
    const held = await new Mutex(await connect(), '/gold').acquire();
    await server.stop();
    await untilState(client, 'SUSPENDED');
    const acquire = timed(new Mutex(client, '/gold').acquire({ wait: 30_000 }));
    await delay(4_000);
    await server.start();
    expect(await acquire).toMatchObject({ code: 'TIMEOUT', after: 30_000 });
    await held.release();
  });

  it('of a multi-lock, when its first lock has used all of the wait', async () => {
    class Late extends Mutex {
      override async acquire(options?: AcquireOptions) {
        const lease = await super.acquire(options);
        await delay(700);
        testProcess().link.cut('both');
        return lease;
      }
    }
    const client = await connect();
    const multi = new MultiLock([new Late(client, '/a'), new Mutex(client, '/b')]);
    expect(await timed(multi.acquire({ wait: 700 }))).toMatchObject({
      code: 'TIMEOUT',
      message: expect.stringContaining('lock "/b" was not granted within 700 ms'),
      after: expect.closeTo(703, -1),
    });
  });
});
