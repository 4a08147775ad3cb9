import { afterEach, expect, it } from 'vitest';
import {
  LeaseLostError,
  LockTimeoutError,
  MultiLock,
  Mutex,
  Semaphore,
} from 'nestjs-zookeeper/recipes';
import { DistributedAtomicLong } from 'nestjs-zookeeper/coordination';
import { EmbeddedZooKeeper } from 'nestjs-zookeeper/embedded';
import { untilState, useClients } from '../support/clients.js';
import { failureOf } from '../support/recipe-nodes.js';
import { useServer } from '../support/servers.js';
import { Curator } from './curator.js';

// The behaviour of Curator 5.4 and then of this library in the same scenario. docs/reliability.md has the table.

const server = useServer();
const connect = useClients(server);
const peers: Curator[] = [];
afterEach(() => Promise.all(peers.splice(0).map((peer) => peer[Symbol.asyncDispose]())));

async function startCurator(connectString = server.connectString, sessionTimeout?: number) {
  const peer = new Curator();
  peers.push(peer);
  await peer.start(connectString, sessionTimeout);
  return peer;
}

it('CURATOR-206: Curator grants the re-entry of a holder that lost its session, together with the next holder; this library rejects it', async () => {
  await using link = await server.newLink();
  const other = await connect();
  /** Ends the session of the holder, and calls back while another client holds the lock. */
  const afterLoss = async (path: string, reenter: () => Promise<void>) => {
    await link.down();
    const lease = await new Mutex(other, path).acquire();
    await link.up();
    await reenter();
    expect(lease.held).toBe(true);
    await lease.release();
  };

  const theirs = server.path('theirs');
  const peer = await startCurator(link.connectString, 2000);
  expect(await peer.acquire('holder', `mutex:${theirs}`)).toBe(true);
  await afterLoss(theirs, async () => {
    expect(await peer.succeeds('acquire-again', 'holder', 60_000)).toBe(true);
  });

  const ours = server.path('ours');
  const client = await connect({ connectString: link.connectString, sessionTimeout: 2000 });
  const mutex = new Mutex(client, ours);
  await mutex.withLock(() =>
    afterLoss(ours, async () => {
      await untilState(client, 'CONNECTED');
      expect(await failureOf(mutex.withLock(() => undefined))).toBeInstanceOf(LeaseLostError);
    }),
  );
});

it('two clients request two of two permits each: Curator grants one to each, and both time out; this library grants both to one, and then to the other', async () => {
  const [theirs, ours] = [server.path('theirs'), server.path('ours')];
  const peer = await startCurator();
  let isDeadlock = false;
  for (let round = 0; round < 20 && !isDeadlock; round++) {
    const names = [`a-${round}`, `b-${round}`];
    const granted = await Promise.all(
      names.map((name) => peer.acquire(name, `semaphore:${theirs}:2:2`, 1000)),
    );
    isDeadlock = !granted.includes(true);
    for (const [index, name] of names.entries()) if (granted[index]) await peer.release(name);
  }
  expect(isDeadlock).toBe(true);

  const clients = await Promise.all([connect(), connect()]);
  const semaphores = clients.map((client) => new Semaphore(client, ours, { permits: 2 }));
  const both = { count: 2, wait: 30_000 };
  for (let round = 0; round < 20; round++) {
    await Promise.all(semaphores.map((semaphore) => semaphore.withLock(() => undefined, both)));
  }
});

it('a multi-lock of three is requested with a wait of 400 ms: Curator waits 400 ms for each lock, this library in all', async () => {
  const other = await connect();
  /** Returns how long `wait` took while the first two locks became free after 300 and 600 ms, and the last one never. */
  const timed = async (wait: (paths: string[]) => Promise<unknown>): Promise<number> => {
    const base = server.path('multi');
    const paths = ['a', 'b', 'c'].map((part) => `${base}/${part}`);
    const last = await new Mutex(other, paths[2]!).acquire();
    await new Mutex(other, paths[0]!).acquire({ holdAtMost: 300 });
    await new Mutex(other, paths[1]!).acquire({ holdAtMost: 600 });
    const start = performance.now();
    await wait(paths);
    const took = performance.now() - start;
    await last.release();
    return took;
  };

  const peer = await startCurator();
  const theirs = (paths: string[]) =>
    peer.acquire(paths[0]!, paths.map((path) => `mutex:${path}`).join(), 400);
  // Curator does not wait for a lock that is released more than 400 ms after the one before it.
  await expect.poll(() => timed(theirs)).toBeGreaterThan(900);

  const client = await connect();
  const ours = async (paths: string[]) => {
    const multi = new MultiLock(paths.map((path) => new Mutex(client, path)));
    expect(await failureOf(multi.acquire({ wait: 400 }))).toBeInstanceOf(LockTimeoutError);
  };
  // One fast run is enough: waiting for each lock separately always takes longer.
  await expect.poll(() => timed(ours)).toBeLessThan(700);
});

it('the reply to the write of an increment is lost: Curator increments twice, this library says that it may be counted', async () => {
  await using zookeeper = await EmbeddedZooKeeper.start();
  const peer = await startCurator(zookeeper.connectString);
  await peer.ask('counter', 'initialize', '/theirs', 0);
  await zookeeper.faults.dropReply({ op: 'setData' });
  expect(await peer.ask('counter', 'add', '/theirs', 1)).toEqual(['true', '1', '2']);

  const client = await connect({ connectString: zookeeper.connectString });
  const counter = new DistributedAtomicLong(client, '/ours');
  await counter.initialize(0n);
  await zookeeper.faults.dropReply({ op: 'setData' });
  const suspended = untilState(client, 'SUSPENDED');
  await expect(counter.increment()).rejects.toMatchObject({ maybeApplied: true });
  await suspended;
  expect(await counter.get()).toBe(1n);
  await client.close();
});
