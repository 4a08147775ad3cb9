import { ConnectionError, Mutex, NonReentrantMutex, Semaphore } from 'nestjs-zookeeper/recipes';
import { TestZooKeeper } from 'nestjs-zookeeper/testing';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { failureOf } from '../../support/recipe-nodes.js';

/** Without a limit of its own, an acquire would wait for an hour. */
const options = {
  sessionTimeout: 40_000,
  retry: { type: 'forever', delay: 3_600_000 },
} as const;

let zookeeper: TestZooKeeper;
beforeEach(() => (zookeeper = TestZooKeeper.inProcess()));
afterEach(() => zookeeper.stop());

describe.each([
  ['a lock', Mutex],
  ['a non-reentrant mutex', NonReentrantMutex],
  [
    'a semaphore',
    class extends Semaphore {
      constructor(...[client, path]: ConstructorParameters<typeof Mutex>) {
        super(client, path, { permits: 1 });
      }
    },
  ],
])('a try for %s', (_, Recipe) => {
  it('is rejected within 2 seconds while there is no connection', async () => {
    await using client = await connected();
    await zookeeper.faults.refuseConnections();
    await zookeeper.dropConnection(client.client);
    const failure = await failureOf(new Recipe(client.client, '/gold').acquire({ wait: 0 }));
    expect(failure).toBeInstanceOf(ConnectionError);
    expect(failure).toMatchObject({
      key: '/gold',
      message: expect.stringMatching(
        /"\/gold" was not acquired: there was no connection for 2000 ms/,
      ),
    });
  });

  it('is rejected within 3 seconds if a connected server does not reply', async () => {
    await using client = await connected();
    const restore = await zookeeper.faults.cut();
    const failure = await failureOf(new Recipe(client.client, '/gold').acquire({ wait: 0 }));
    expect(failure).toBeInstanceOf(ConnectionError);
    expect(failure).toMatchObject({
      message: expect.stringContaining('not replied within 3000 ms'),
    });
    await restore();
    // The znode of the try is deleted in the background.
    await using _lease = await new Recipe(client.client, '/gold').acquire({ wait: 10_000 });
  });

  it('is granted after a pause of the process in which the reply arrived', async () => {
    await using client = await connected();
    const attempt = new Recipe(client.client, '/gold').acquire({ wait: 0 });
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 3300);
    await (await attempt).release();
  });

  it('is cancelled by its signal', async () => {
    await using client = await connected();
    await zookeeper.faults.refuseConnections();
    await zookeeper.dropConnection(client.client);
    const cancelling = new AbortController();
    const lock = new Recipe(client.client, '/gold');
    const failure = failureOf(lock.acquire({ wait: 0, signal: cancelling.signal }));
    cancelling.abort();
    expect(await failure).toMatchObject({ code: 'CANCELLED' });
  });
});

async function connected() {
  const client = await zookeeper.client(options);
  return { client, [Symbol.asyncDispose]: () => client.close() };
}
