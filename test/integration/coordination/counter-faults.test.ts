import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { EmbeddedZooKeeper } from 'nestjs-zookeeper/embedded';
import {
  type AtomicValue,
  ConnectionError,
  DistributedAtomicLong,
  ZkClient,
} from 'nestjs-zookeeper/coordination/recipes';
import { clientDefaults, copiedServer, serverHas } from '../../support/servers.js';

const CLIENTS = 3;

type Step =
  | { type: 'increment'; client: number; callers: number }
  | { type: 'dropReply'; op: 'setData' | 'multi' | 'create' | 'getData' | 'sync' }
  | { type: 'drop' }
  | { type: 'expire'; client: number }
  | { type: 'pause'; client: number };

function stepsOf(expiries: boolean): fc.Arbitrary<Step[]> {
  const client = fc.nat({ max: CLIENTS - 1 });
  const step = <T extends Step>(
    weight: number,
    fields: { [K in keyof T]: fc.Arbitrary<T[K]> },
  ) => ({
    weight,
    arbitrary: fc.record(fields) as fc.Arbitrary<Step>,
  });
  return fc.array(
    fc.oneof(
      step<Extract<Step, { type: 'increment' }>>(10, {
        type: fc.constant('increment'),
        client,
        callers: fc.integer({ min: 1, max: 4 }),
      }),
      step<Extract<Step, { type: 'dropReply' }>>(6, {
        type: fc.constant('dropReply'),
        op: fc.constantFrom('setData', 'multi', 'create', 'getData', 'sync'),
      }),
      step<Extract<Step, { type: 'drop' }>>(2, { type: fc.constant('drop') }),
      step<Extract<Step, { type: 'expire' }>>(expiries ? 2 : 0, {
        type: fc.constant('expire'),
        client,
      }),
      step<Extract<Step, { type: 'pause' }>>(4, { type: fc.constant('pause'), client }),
    ),
    { minLength: 4, maxLength: 30 },
  );
}

describe.runIf(process.env.ZK_SERVER === 'embedded')('a counter under faults', { retry: 0 }, () => {
  let server: EmbeddedZooKeeper;
  const clients: ZkClient[] = [];
  let runs = 0;
  beforeAll(async () => {
    server = await EmbeddedZooKeeper.start({ server: copiedServer, tickTime: 100 });
    for (let i = 0; i < CLIENTS; i++) {
      const client = new ZkClient({
        ...clientDefaults,
        connectString: server.connectString,
        sessionTimeout: 6000,
        retry: { type: 'forever', delay: 20 },
      });
      clients.push(client);
      await client.connect();
    }
  });
  afterAll(async () => {
    await Promise.all(clients.map((client) => client.close()));
    await server.stop();
  });

  /** Runs one schedule, and returns how many increments were confirmed, and how many are unknown. */
  async function run(steps: readonly Step[]): Promise<{ confirmed: number; unknown: number }> {
    const path = `/run-${++runs}`;
    const counters = clients.map(
      (client) => new DistributedAtomicLong(client, path, { lockPath: `${path}-lock` }),
    );
    const increments: Promise<AtomicValue>[] = [];
    const undo: (() => Promise<void>)[] = [];
    for (const step of steps) {
      if (step.type === 'increment') {
        for (let i = 0; i < step.callers; i++) {
          const increment = counters[step.client]!.increment();
          increment.catch(() => {});
          increments.push(increment);
        }
      } else if (step.type === 'dropReply') undo.push(await server.faults.dropReply(step));
      else if (step.type === 'drop') await server.dropConnections();
      else if (step.type === 'expire') {
        const session = await clients[step.client]!.session();
        // Unknown if it has ended already.
        await server.expireSession(session.id).catch(() => {});
      } else await clients[step.client]!.exists('/').catch(() => {});
    }
    const results = await Promise.allSettled(increments);
    for (const each of undo) await each();
    const posts = results.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []));
    const errors = results.flatMap((each) => (each.status === 'rejected' ? [each.reason] : []));
    for (const error of errors) {
      expect(error).toBeInstanceOf(ConnectionError);
      expect(error).toMatchObject({ maybeApplied: true });
    }
    const value = Number(await counters[0]!.get());
    expect(value).toBeGreaterThanOrEqual(posts.length);
    expect(value).toBeLessThanOrEqual(posts.length + errors.length);
    const values = new Set(posts.map(({ postValue }) => postValue));
    expect(values.size).toBe(posts.length);
    for (const { preValue, postValue } of posts) expect(postValue).toBe(preValue + 1n);
    // Otherwise the markers of lost sessions remain until their timeouts.
    if (value > 0 && serverHas.sessionResume) {
      // The deletion of a marker may wait until its client has connected again.
      const markers = async () => (await clients[0]!.children(path)).children;
      await expect.poll(markers).toEqual([]);
    }
    return { confirmed: posts.length, unknown: errors.length };
  }

  /** FAST_CHECK_SEED repeats a failure. FAST_CHECK_SECONDS runs for longer. */
  async function check(expiries: boolean): Promise<{ confirmed: number; unknown: number }> {
    const { FAST_CHECK_SEED: seed, FAST_CHECK_SECONDS: seconds } = process.env;
    const end = performance.now() + Number(seconds ?? 2) * 1000;
    const sum = { confirmed: 0, unknown: 0 };
    const property = fc.asyncProperty(stepsOf(expiries), async (steps) => {
      if (performance.now() > end) return;
      const { confirmed, unknown } = await run(steps);
      sum.confirmed += confirmed;
      sum.unknown += unknown;
    });
    await fc.assert(property, {
      numRuns: seconds === undefined ? 250 : Number(seconds) * 500,
      // The timing of the network matters too, so a shrunk schedule would prove nothing.
      endOnFailure: true,
      ...(seed === undefined ? {} : { seed: Number(seed) }),
    });
    return sum;
  }

  it.runIf(serverHas.sessionResume)(
    'counts each confirmed increment once when replies are lost, and over the wire transport confirms all',
    async () => {
      const { unknown } = await check(false);
      if (clients[0]!.transport === 'wire') expect(unknown).toBe(0);
    },
  );

  it('counts each confirmed increment once when sessions end as well', async () => {
    expect((await check(true)).confirmed).toBeGreaterThan(0);
  });
});
