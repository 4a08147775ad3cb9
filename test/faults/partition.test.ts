import { afterAll, beforeAll, expect, it } from 'vitest';
import { Mutex, ZkClient } from 'nestjs-zookeeper/recipes';
import { Ensemble } from '../../scripts/faults/ensemble.js';
import { eventually } from '../support/eventually.js';

// Three real servers, one of which is cut off from the others.

const TICK_TIME = 500;
const SESSION_TIMEOUT = 3_000;
/** An isolated follower serves reads for ten seconds, so that the leader expires the sessions of its clients before. */
const SYNC_LIMIT = 20;

let ensemble: Ensemble;

beforeAll(async () => {
  ensemble = await Ensemble.start({ tickTime: TICK_TIME, syncLimit: SYNC_LIMIT, linked: true });
});
afterAll(() => ensemble?.stop());

async function connect(ports: readonly number[]): Promise<ZkClient> {
  const client = new ZkClient({
    connectString: ports.map((port) => `127.0.0.1:${port}`).join(),
    sessionTimeout: SESSION_TIMEOUT,
    retry: { type: 'forever', delay: 100 },
  });
  await client.connect();
  return client;
}

it('a holder loses its lease before the next grant, although its follower answers reads without a leader', async () => {
  const follower = await eventually(async () => {
    const [first] = await ensemble.followers();
    if (!first) throw new Error('the ensemble has no follower');
    return first;
  });
  const holder = await connect([follower.port]);
  const other = await connect(ensemble.ports.filter((port) => port !== follower.port));
  const lease = await new Mutex(holder, '/partition').acquire();
  const waiting = new Mutex(other, '/partition').acquire();
  let granted = false;
  let readsAfterCut = 0;
  ensemble.isolate(follower);
  const reading = (async () => {
    while (!granted && lease.held) {
      await holder.exists('/');
      readsAfterCut++;
    }
  })().catch(() => {});

  const next = await waiting;
  const held = lease.held;
  granted = true;
  expect(held).toBe(false);
  expect(next.fencingToken).toBeGreaterThan(lease.fencingToken);
  // Otherwise the follower would have ended the connection of the holder, and the test would show nothing.
  expect(readsAfterCut).toBeGreaterThan(0);
  expect(await follower.mode()).toBe('follower');

  ensemble.rejoin(follower);
  await next.release();
  await reading;
  await Promise.all([holder.close(), other.close()]);
});
