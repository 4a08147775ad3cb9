import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import { LeaseLostError, Mutex, ZkClient, type ZkClientOptions } from 'nestjs-zookeeper/recipes';
import { Ensemble } from '../../scripts/faults/ensemble.js';
import type { RealServer } from '../../scripts/faults/real-server.mjs';
import { aborted } from '../support/clients.js';
import { transport } from '../support/environment.js';
import { eventually } from '../support/eventually.js';

// Three real servers, one of which is the leader.

const TICK_TIME = 500;
const SESSION_TIMEOUT = 3_000;
/**
 * The longest session timeout that these servers grant, for tests in which the session must not
 * expire.
 */
const LONG_SESSION = 20 * TICK_TIME;

let ensemble: Ensemble;
const clients: ZkClient[] = [];

beforeAll(async () => {
  ensemble = await Ensemble.start({ tickTime: TICK_TIME });
});
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
    transport,
    connectTimeout: SESSION_TIMEOUT / 4,
    // On a busy machine servers start slowly, and an ensemble may lose its majority once more.
    retry: { type: 'forever', delay: 100 },
    ...options,
  });
  clients.push(client);
  await client.connect();
  return client;
}

/**
 * Resolves with the leader and a follower, once both report their roles. On a busy machine they may
 * answer late.
 */
function roles(): Promise<{ leader: RealServer; follower: RealServer }> {
  return eventually(async () => {
    const [leader, [follower]] = [await ensemble.leader(), await ensemble.followers()];
    if (!leader || !follower) throw new Error('the ensemble has no leader or no follower');
    return { leader, follower };
  });
}

it('a lease survives the death of the leader, and the next lease has a higher token', async () => {
  // An election must be shorter than three quarters of this, on a busy machine too.
  const options = { sessionTimeout: LONG_SESSION };
  const [holder, other] = await Promise.all([connect(options), connect(options)]);
  const lease = await new Mutex(holder, '/leader-dies').acquire();
  const waiting = new Mutex(other, '/leader-dies').acquire();
  const { leader } = await roles();
  await leader.stop();
  await ensemble.quorum();
  await expect.poll(() => holder.sync('/').then(() => true)).toBe(true);
  expect(lease.held).toBe(true);
  expect(lease.signal.aborted).toBe(false);
  await lease.release();
  expect((await waiting).fencingToken).toBeGreaterThan(lease.fencingToken);
  await (await waiting).release();
  expect((await roles()).leader).not.toBe(leader);
});

it('a minority serves no client: the lease ends by the session deadline, and all clients work again with a majority', async () => {
  const [holder, other] = await Promise.all([connect(), connect()]);
  const lease = await new Mutex(holder, '/minority').acquire();
  const waiting = new Mutex(other, '/minority').acquire();
  const [, ...two] = ensemble.nodes;
  await Promise.all(two.map((node) => node.stop()));
  expect(await aborted(lease.signal)).toBeInstanceOf(LeaseLostError);
  for (const node of two) node.launch();
  await ensemble.quorum();
  const next = await waiting;
  expect(next.fencingToken).toBeGreaterThan(lease.fencingToken);
  await next.release();
});
