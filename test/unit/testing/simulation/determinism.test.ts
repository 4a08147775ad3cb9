import { randomBytes, randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { LockTimeoutError } from 'nestjs-zookeeper';
import { Mutex } from 'nestjs-zookeeper/recipes';
import { simulate, type SimulationError, type World } from 'nestjs-zookeeper/testing';
import { describe, expect, it } from 'vitest';

/** Runs three processes that compete for a lock while faults happen. Returns their actions in order. */
async function compete(world: World): Promise<string[]> {
  const order: string[] = [];
  const workers = ['a', 'b', 'c'].map(async (name) => {
    const process = world.process(name);
    const client = await process.client({ sessionTimeout: 2000 });
    await process.run(async () => {
      const mutex = new Mutex(client, '/locks/one');
      for (let round = 0; round < 20; round++) {
        const work = mutex.withLock(
          async (lease) => {
            order.push(`${name} ${lease.fencingToken} ${Date.now()}`);
            world.note(`holds ${randomUUID()} ${randomBytes(2).toString('hex')}`);
            await pause(Math.random() * 20);
          },
          { wait: 1000 },
        );
        await work.catch((error: unknown) => {
          if (!(error instanceof LockTimeoutError)) order.push(`${name} ${String(error)}`);
        });
      }
      await client.close();
    });
    return process;
  });
  const nemesis = async () => {
    await world.sleep(50);
    world.loseReply('create');
    await world.sleep(100);
    world.servers[0]!.crash();
    await world.sleep(world.random.between(10, 500));
    world.servers[0]!.restart();
  };
  await Promise.all([...workers, nemesis()]);
  return order;
}

describe('the seed of a simulation', () => {
  it('repeats a run with the same digest, trace and result', async () => {
    for (let seed = 1; seed <= 2; seed++) {
      const first = await simulate({ seed, servers: 3 }, compete);
      const second = await simulate({ seed, servers: 3 }, compete);
      expect(second).toEqual(first);
      expect(first.value.length).toBeGreaterThan(10);
      expect(first.trace.map(({ event }) => event)).toContain('crashed');
    }
  });

  it('changes the interleaving', async () => {
    const digests = new Set<string>();
    const orders = new Set<string>();
    for (let seed = 1; seed <= 5; seed++) {
      const { digest, value } = await simulate({ seed }, compete);
      digests.add(digest);
      orders.add(value.map((entry) => entry[0]).join(''));
    }
    expect(digests.size).toBe(5);
    expect(orders.size).toBeGreaterThan(2);
  });

  it('repeats a run, whatever the Node process did before', async () => {
    const { digest } = await simulate({ seed: 1 }, compete);
    Number(setTimeout(() => {}, 1));
    await expect(simulate({ seed: 99 }, () => Promise.reject(new Error('no')))).rejects.toThrow();
    await simulate({ seed: 98 }, async (world) => {
      // This scenario ends with an open client, a waiter, timers and a timer that was converted to a number.
      const process = world.process('a');
      const client = await process.client();
      void process.run(() => new Mutex(client, '/locks/one').acquire());
      void process.run(() => new Mutex(client, '/locks/one').acquire());
      await pause(100);
      Number(setTimeout(() => {}, 1000));
    });
    expect((await simulate({ seed: 1 }, compete)).digest).toBe(digest);
  });

  it('is random by default, and part of the result', async () => {
    const [first, second] = [await simulate({}, () => {}), await simulate({}, () => {})];
    expect(second.seed).not.toBe(first.seed);
  });

  it('decides every random number, and the numbers of timers', async () => {
    const draw = () => [
      Math.random(),
      randomUUID(),
      crypto.randomUUID(),
      randomBytes(8).toString('hex'),
      String(crypto.getRandomValues(new Uint32Array(4))),
    ];
    const number = () => simulate({ seed: 1 }, () => Number(setTimeout(() => {}, 1)));
    expect((await number()).value).toBe((await number()).value);
    const { value: first } = await simulate({ seed: 5 }, draw);
    const { value: second } = await simulate({ seed: 5 }, draw);
    const { value: other } = await simulate({ seed: 6 }, draw);
    expect(second).toEqual(first);
    for (const [index, drawn] of other.entries()) expect(drawn).not.toBe(first[index]);
    expect(first[1]).toMatch(/^[\da-f]{8}-[\da-f]{4}-4[\da-f]{3}-[89ab][\da-f]{3}-[\da-f]{12}$/);
  });
});

describe('the digest of a run', () => {
  const digestOf = async (scenario: (world: World) => unknown) =>
    simulate({ seed: 1 }, scenario).then(
      (run) => run.digest,
      (error: SimulationError) => error.digest,
    );

  const locking = (name: string) => async (world: World) => {
    const process = world.process('a');
    const client = await process.client();
    await process.run(() => new Mutex(client, `/locks/${name}`).withLock(async () => {}));
  };

  it.each<[string, (world: World) => unknown, (world: World) => unknown]>([
    ['the paths of requests', locking('x'), locking('y')],
    ['the return value', () => ({ sold: [1, 2n] }), () => ({ sold: [1, 3n] })],
    [
      'the error',
      () => Promise.reject(new Error('first')),
      () => Promise.reject(new Error('second')),
    ],
    ['success or failure', () => 'done', () => Promise.reject(new Error('done'))],
  ])('depends on %s', async (_, first, second) => {
    expect(await digestOf(first)).not.toBe(await digestOf(second));
    expect(await digestOf(first)).toBe(await digestOf(first));
  });

  it('does not depend on returned objects that are not plain data', async () => {
    const cycle: unknown[] = [];
    cycle.push(cycle);
    expect(await digestOf(() => cycle)).toMatch(/^[\da-f]{16}$/);
    expect(await digestOf((world) => ({ world }))).toBe(await digestOf(() => ({})));
  });
});
