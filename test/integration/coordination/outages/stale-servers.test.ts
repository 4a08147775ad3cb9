import {
  DistributedAtomicLong,
  DistributedBarrier,
  DistributedDoubleBarrier,
  WaitTimeoutError,
} from 'nestjs-zookeeper/coordination';
import { type ZkClient } from 'nestjs-zookeeper/recipes';
import { simulate, type World } from 'nestjs-zookeeper/testing';
import { expect, it } from 'vitest';

const ENSEMBLE = { seed: 1, servers: 3, lag: [200, 200] } as const;

/** Opens a recipe in each of several processes. The first two have different servers. */
async function open<T>(world: World, create: (client: ZkClient) => T): Promise<T[]> {
  const all = await Promise.all(
    ['a', 'b', 'c', 'd', 'e', 'f'].map(async (name) => {
      const client = await world.process(name).client();
      const server = world.servers.find(({ sessionIds }) => sessionIds.includes(client.sessionId!));
      return { recipe: create(client), server };
    }),
  );
  const [first, ...others] = all;
  others.sort((a, b) => Number(a.server === first!.server) - Number(b.server === first!.server));
  expect(others[0]!.server).not.toBe(first!.server);
  return [first!, ...others].map(({ recipe }) => recipe);
}

/** Checks that the promise settles only after the call. */
async function settlesAfter(world: World, waits: Promise<unknown>, call: () => Promise<unknown>) {
  let settled = false;
  void waits.finally(() => (settled = true));
  await world.sleep(5_000);
  expect(settled).toBe(false);
  await Promise.all([call(), waits]);
}

it('waitOnBarrier() waits at a barrier that was set at another server', () =>
  simulate(ENSEMBLE, async (world) => {
    const create = (client: ZkClient) => new DistributedBarrier(client, '/barrier');
    const [first, other] = await open(world, create);
    await first!.setBarrier();
    await settlesAfter(world, other!.waitOnBarrier(), () => first!.removeBarrier());
  }));

it('leave() of a double barrier waits for a member that entered late at another server', () =>
  simulate(ENSEMBLE, async (world) => {
    const create = (client: ZkClient) => new DistributedDoubleBarrier(client, '/barrier', 2);
    const [first, late, second] = await open(world, create);
    await Promise.all([first!.enter(), second!.enter()]);
    await late!.enter();
    const leaving = Promise.all([first!.leave(), second!.leave()]);
    await settlesAfter(world, leaving, () => late!.leave());
  }));

it('compareAndSet() of a counter is not refused by the value of a server that lags behind', () =>
  simulate(ENSEMBLE, async (world) => {
    const create = (client: ZkClient) => new DistributedAtomicLong(client, '/counter');
    const counters = await open(world, create);
    for (const [index, counter] of [...counters, ...counters].entries()) {
      const value = BigInt(index);
      expect(await counter.compareAndSet(value, value + 1n)).toMatchObject({
        succeeded: true,
        preValue: value,
      });
    }
  }));

it('a member of a double barrier waits for the znodes of all earlier calls that its last session has left', () =>
  simulate({ seed: 1 }, async (world) => {
    const client = await world.process('a').client();
    const barrier = new DistributedDoubleBarrier(client, '/barrier', 2);
    const timesOut = (wait: number) =>
      expect(barrier.enter({ wait })).rejects.toThrow(WaitTimeoutError);
    const first = timesOut(100);
    await world.sleep(50);
    const [left] = world.znodes('/barrier');
    const [server] = world.servers;
    server!.crash({ silently: true });
    await first;
    await timesOut(100);
    server!.restart();
    world.expireSession(client);
    // As if the ensemble kept the session for some more time.
    const other = await world.process('b').client();
    await other.create(left!.path, '', { mode: 'ephemeral' });
    await timesOut(3_000);
  }));
