import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { LeaseLostError, Mutex, ZkClient, type ZkClientOptions } from 'nestjs-zookeeper/recipes';
import { aborted } from '../support/clients.js';
import { Ensemble, PlainLink } from '../support/harness.js';

// Three real servers, one of which leads.

const TICK_TIME = 250;
const SESSION_TIMEOUT = 3_000;
/** Within which everybody works again from the moment the ensemble has a majority. */
const RECOVERY = (SESSION_TIMEOUT * 4) / 3 + 2 * TICK_TIME;

let ensemble: Ensemble;
const clients: ZkClient[] = [];

beforeAll(async () => {
  ensemble = await Ensemble.start({ tickTime: TICK_TIME });
}, 60_000);
afterEach(async () => {
  await Promise.all(clients.splice(0).map((client) => client.close()));
  for (const node of ensemble.nodes) {
    if (node.running) node.resume();
    else node.launch();
  }
  await ensemble.quorum(3);
});
afterAll(() => ensemble?.stop());

async function connect(options: Partial<ZkClientOptions> = {}): Promise<ZkClient> {
  const connectString = ensemble.ports.map((port) => `127.0.0.1:${port}`).join();
  const client = new ZkClient({
    connectString,
    sessionTimeout: SESSION_TIMEOUT,
    connectTimeout: SESSION_TIMEOUT / 4,
    ...options,
  });
  clients.push(client);
  await client.connect();
  return client;
}

describe.each(['native', 'wire'] as const)('over %s', (transport) => {
  const path = (name: string) => `/faults-${transport}-${name}`;

  it('a lease outlives the death of the leader, and the next one has a higher token', async () => {
    const [holder, other] = await Promise.all([connect({ transport }), connect({ transport })]);
    const lease = await new Mutex(holder, path('leader-dies')).acquire();
    const waiting = new Mutex(other, path('leader-dies')).acquire();
    const leader = (await ensemble.leader())!;
    await leader.stop();
    await ensemble.quorum();
    await holder.sync('/');
    expect(lease.held).toBe(true);
    expect(lease.signal.aborted).toBe(false);
    await lease.release();
    expect((await waiting).fencingToken).toBeGreaterThan(lease.fencingToken);
    await (await waiting).release();
    expect(await ensemble.leader()).not.toBe(leader);
  });

  it('a lease outlives a server that stands still, for another serves it', async () => {
    const client = await connect({ transport });
    const lease = await new Mutex(client, path('standstill')).acquire();
    const [follower] = await ensemble.followers();
    follower!.pause();
    // Wherever the client was: long enough for one that waits for that server to lose its session.
    const until = performance.now() + 2 * SESSION_TIMEOUT;
    while (performance.now() < until) await client.exists('/');
    expect(lease.held).toBe(true);
    await lease.release();
  });

  it('a minority serves nobody: the lease ends by the own clock, and all work again with a majority', async () => {
    const [holder, other] = await Promise.all([connect({ transport }), connect({ transport })]);
    const lease = await new Mutex(holder, path('minority')).acquire();
    const waiting = new Mutex(other, path('minority')).acquire();
    const [, ...two] = ensemble.nodes;
    const since = performance.now();
    await Promise.all(two.map((node) => node.stop()));
    expect(await aborted(lease.signal)).toBeInstanceOf(LeaseLostError);
    // Three quarters of the timeout, and a little for what was answered since.
    expect(performance.now() - since).toBeLessThan(SESSION_TIMEOUT);
    for (const node of two) node.launch();
    await ensemble.quorum();
    const majority = performance.now();
    const next = await waiting;
    expect(performance.now() - majority).toBeLessThan(RECOVERY);
    expect(next.fencingToken).toBeGreaterThan(lease.fencingToken);
    await next.release();
  });

  it('a request that went through before its answer was lost is not made twice', async () => {
    const links = await Promise.all(ensemble.ports.map((port) => PlainLink.to(port)));
    const connectString = links.map((link) => link.connectString).join();
    const client = await connect({ transport: 'wire', connectString });
    const other = await connect({ transport });
    const mutex = new Mutex(client, path('lost-answer'));
    for (let round = 0; round < 10; round++) {
      const acquiring = mutex.acquire();
      if (round % 2) await new Promise(setImmediate);
      for (const link of links) link.dropReply();
      const lease = await acquiring;
      const { children } = await other.children(path('lost-answer'));
      expect(children).toHaveLength(1);
      await lease.release();
    }
    for (const link of links) link.close();
  });
});
