import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, describe, expect, it } from 'vitest';
import {
  LeaseLostError,
  LockTimeoutError,
  MultiLock,
  Mutex,
  Semaphore,
} from 'nestjs-zookeeper/recipes';
import { DistributedAtomicLong } from 'nestjs-zookeeper/coordination/recipes';
import { EmbeddedZooKeeper } from 'nestjs-zookeeper/embedded';
import { untilState, useClients } from '../support/clients.js';
import { failureOf } from '../support/recipe-nodes.js';
import { useServer } from '../support/servers.js';
import { Curator } from './curator.js';

// The behaviour of Curator 5.4 and of this library in the same scenario. docs/reliability.md has
// the table.

const server = useServer();
const connect = useClients(server);
const peers: Curator[] = [];
afterEach(() => Promise.all(peers.splice(0).map((peer) => peer[Symbol.asyncDispose]())));

async function curator(connectString = server.connectString, sessionTimeout?: number) {
  const peer = await Curator.start(connectString, sessionTimeout);
  peers.push(peer);
  return peer;
}

describe('CURATOR-206: the holder of a lock that was lost with its session re-enters it', () => {
  it('Curator grants it, together with the next holder', async () => {
    const path = server.path('theirs-206');
    await using link = await server.newLink();
    const peer = await curator(link.connectString, 2000);
    const other = await connect();
    expect(await peer.acquire('holder', `mutex:${path}`)).toBe(true);
    await link.down();
    const lease = await new Mutex(other, path).acquire();
    await link.up();
    expect(await peer.acquireAgain('holder')).toBe(true);
    expect(lease.held).toBe(true);
    await lease.release();
  });

  it('this library rejects the re-entry', async () => {
    const path = server.path('ours-206');
    await using link = await server.newLink();
    const client = await connect({ connectString: link.connectString, sessionTimeout: 2000 });
    const other = await connect();
    const mutex = new Mutex(client, path);
    await mutex.withLock(async () => {
      await link.down();
      const lease = await new Mutex(other, path).acquire();
      await link.up();
      await untilState(client, 'CONNECTED');
      expect(await failureOf(mutex.withLock(() => undefined))).toBeInstanceOf(LeaseLostError);
      expect(lease.held).toBe(true);
      await lease.release();
    });
  });
});

describe('two clients request two of two permits each', () => {
  it('Curator grants one to each of them, and both time out', async () => {
    const path = server.path('theirs-permits');
    const peer = await curator();
    let deadlocks = 0;
    for (let round = 0; round < 20 && deadlocks === 0; round++) {
      const lock = `semaphore:${path}:2:2`;
      const granted = await Promise.all(
        ['a', 'b'].map((name) => peer.acquire(`${name}-${round}`, lock, 1000)),
      );
      if (!granted.includes(true)) deadlocks++;
      for (const [index, name] of ['a', 'b'].entries()) {
        if (granted[index]) await peer.release(`${name}-${round}`);
      }
    }
    expect(deadlocks).toBe(1);
  });

  it('this library grants both to one of them, and then to the other', async () => {
    const path = server.path('ours-permits');
    const clients = await Promise.all([connect(), connect()]);
    for (let round = 0; round < 20; round++) {
      await Promise.all(
        clients.map((client) =>
          new Semaphore(client, path, { permits: 2 }).withLock(() => undefined, {
            count: 2,
            wait: 30_000,
          }),
        ),
      );
    }
  });
});

describe('a multi-lock of three is requested with a wait of 400 ms, while its first two locks are released one after the other', () => {
  /**
   * Returns how long `wait` took while the first two locks at `paths` were released at 300 and 600
   * ms, and the last one never.
   */
  async function timed(paths: string[], wait: () => Promise<unknown>): Promise<number> {
    const other = await connect();
    const held = await Promise.all(paths.map((path) => new Mutex(other, path).acquire()));
    const start = performance.now();
    const waiting = wait().then(() => performance.now() - start);
    for (const lease of held.slice(0, 2)) {
      await delay(300);
      await lease.release();
    }
    const took = await waiting;
    await held[2]!.release();
    return took;
  }

  const paths = (name: string) => {
    const base = server.path(name);
    return ['a', 'b', 'c'].map((part) => `${base}/${part}`);
  };

  it('Curator waits 400 ms for each lock', async () => {
    const peer = await curator();
    // Curator does not wait for a lock that is released more than 400 ms after the one before it.
    await expect
      .poll(() => {
        const all = paths('theirs-multi');
        const lock = all.map((path) => `mutex:${path}`).join();
        return timed(all, () => peer.acquire(all[0]!, lock, 400));
      })
      .toBeGreaterThan(900);
  });

  it('this library waits 400 ms in total', async () => {
    const client = await connect();
    // One fast run is enough: waiting for each lock separately always takes longer.
    await expect
      .poll(() => {
        const all = paths('ours-multi');
        const multi = new MultiLock(all.map((path) => new Mutex(client, path)));
        return timed(all, async () =>
          expect(await failureOf(multi.acquire({ wait: 400 }))).toBeInstanceOf(LockTimeoutError),
        );
      })
      .toBeLessThan(700);
  });
});

describe('the reply to the write of an increment is lost', () => {
  it('Curator increments twice', async () => {
    await using zookeeper = await EmbeddedZooKeeper.start();
    const peer = await curator(zookeeper.connectString);
    await peer.initializeCounter('/counter', 0n);
    await zookeeper.faults.dropReply({ op: 'setData' });
    expect(await peer.counter('add', '/counter', 1n)).toEqual({
      succeeded: true,
      preValue: 1n,
      postValue: 2n,
    });
  });

  it('this library increments once', async () => {
    await using zookeeper = await EmbeddedZooKeeper.start();
    const client = await connect({ connectString: zookeeper.connectString, transport: 'wire' });
    const counter = new DistributedAtomicLong(client, '/counter');
    await counter.initialize(0n);
    await zookeeper.faults.dropReply({ op: 'multi' });
    const suspended = untilState(client, 'SUSPENDED');
    expect(await counter.increment()).toEqual({ preValue: 0n, postValue: 1n });
    await suspended;
    expect(await counter.get()).toBe(1n);
    await client.close();
  });
});
