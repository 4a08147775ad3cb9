import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import type { ExploreOptions } from '../../../../lib/testing/simulation/explore.js';
import { Mutex } from '../../../../lib/recipes/index.js';
import {
  explore,
  type ExploreResult,
  ProcessCrashedError,
  simulate,
  SimulationError,
  standardFaults,
  type World,
} from '../../../../lib/testing/index.js';

/** Two shops that sell one piece each, with a stock that does not know fencing tokens. */
async function sale(world: World): Promise<void> {
  let left = 10;
  let sold = 0;
  const shops = ['a', 'b'].map((name) => world.process(name));
  await Promise.all(
    shops.map(async (shop) => {
      const client = await shop.client({ sessionTimeout: 1000 });
      const sell = new Mutex(client, '/stock').withLock.bind(new Mutex(client, '/stock'));
      await shop.run(async () => {
        await sell(async () => {
          const found = left;
          await sleep(2);
          left = found - 1;
          sold++;
        });
        await client.close();
      });
    }),
  ).catch((error: unknown) => {
    if (!(error instanceof ProcessCrashedError)) throw error;
  });
  if (left !== 10 - sold) throw new Error(`${sold} pieces are sold and ${left} are left`);
}

const options: ExploreOptions = { tickTime: 250, limit: 60_000 };
const pauses = standardFaults({ processes: ['a', 'b'], sessionTimeout: 1000 }).filter(({ name }) =>
  name.startsWith('long pause:'),
);

describe('explore', () => {
  it('finds the moments at which a fault shows a bug, and its plan repeats the failure', async () => {
    const { violations, violationCount } = await explore({ ...options, faults: pauses }, sale);
    expect(violationCount).toBe(violations.length);
    const [{ plan, message }] = violations as [(typeof violations)[number]];
    expect(message).toContain('2 pieces are sold and 9 are left');
    const again = await explore({ ...options, faults: pauses, plan }, sale);
    expect(again).toMatchObject({ schedules: 1, violationCount: 1 });
    expect(again.violations[0]!.error.digest).toBe(violations[0]!.error.digest);
    expect(again.violations[0]!.error.trace.map(({ event }) => event)).toContain('paused');
  });

  it('counts the same in each exploration, and its parts add up to the whole', async () => {
    const whole = await explore({ ...options, faults: pauses }, sale);
    const parts: ExploreResult[] = [];
    for (const index of [0, 1, 2]) {
      parts.push(await explore({ ...options, faults: pauses, shard: { index, count: 3 } }, sale));
    }
    const sum = (of: (part: ExploreResult) => number) =>
      parts.reduce((total, part) => total + of(part), 0);
    expect(sum(({ schedules }) => schedules)).toBe(whole.schedules);
    expect(sum(({ violationCount }) => violationCount)).toBe(whole.violationCount);
    expect(sum(({ skipped }) => skipped.commuting)).toBe(whole.skipped.commuting);
    const digests = parts.reduce((total, { digest }) => total + BigInt(`0x${digest}`), 0n);
    expect(BigInt.asUintN(64, digests)).toBe(BigInt(`0x${whole.digest}`));
    const behaviours = new Set(parts.flatMap((part) => [...part.behaviours]));
    expect(behaviours).toEqual(whole.behaviours);
    // Each moment of each fault is run or skipped.
    const { schedules, skipped, moments, faults } = whole;
    expect(schedules - 1 + skipped.commuting + skipped.repeated).toBe(moments * faults);
  });

  it('injects a fault before each event that its rule names, and ends it', async () => {
    const injected: string[] = [];
    const fault = {
      ...{ name: 'note', target: 'a', duration: 3 },
      applies: ({ kind, process }: { kind: string; process: string }) =>
        kind === 'timer' && process === 'a',
      start(world: World) {
        const { now } = world;
        return () => injected.push(`${now} ${world.now - now}`);
      },
    };
    const { schedules, moments } = await explore({ faults: [fault] }, async (world) => {
      const a = world.process('a');
      await a.run(async () => {
        await sleep(1);
        await sleep(1);
      });
      await world.sleep(5);
    });
    expect(moments).toBeGreaterThan(2);
    expect(schedules).toBe(3);
    expect(injected).toHaveLength(2);
    for (const each of injected) expect(each).toMatch(/ 3(\.0+\d*)?$|2\.9+\d*$/);
  });

  it('skips a fault where it has no effect, also in a pair and in a plan', async () => {
    const faults = standardFaults({ processes: ['a', 'b'], sessionTimeout: 1000 }).filter(
      ({ name }) => name === 'deletion of the first znode: a',
    );
    const states: number[] = [];
    const spied = faults.map((fault) => ({
      ...fault,
      start: (world: World) => {
        const { length } = world.znodes();
        fault.start(world);
        states.push(length - world.znodes().length);
      },
    }));
    const { schedules, skipped } = await explore({ ...options, faults: spied, pairs: true }, sale);
    expect(skipped.ineffective).toBeGreaterThan(0);
    expect(schedules).toBeGreaterThan(1);
    expect(new Set(states)).toEqual(new Set([1]));
    const plan = [[faults[0]!.name, 0]] as const;
    await explore({ ...options, faults: spied, plan }, sale);
    expect(new Set(states)).toEqual(new Set([1]));
  });

  it('finds a bug that needs two faults with pairs only', async () => {
    let count = 0;
    const faults = ['x', 'y'].map((name) => ({
      ...{ name, target: 'a', duration: 0 },
      start: () => void count++,
    }));
    const scenario = async (world: World) => {
      count = 0;
      await world.process('a').run(() => sleep(1));
      if (count > 1) throw new Error('two faults');
    };
    const single = await explore({ faults }, scenario);
    expect(single.violationCount).toBe(0);
    const pairs = await explore({ faults, pairs: true }, scenario);
    // x before each moment with x and y before later ones and so on; at one moment each pair counts once.
    const { moments } = single;
    expect(pairs.violationCount).toBe(pairs.schedules - single.schedules);
    expect(pairs.violationCount).toBeGreaterThanOrEqual(2 * moments * (moments - 1) + moments);
    const { plan } = pairs.violations[0]!;
    expect(plan).toHaveLength(2);
    expect((await explore({ faults, plan }, scenario)).violationCount).toBe(1);
  });

  it('injects nothing while the scenario excludes faults', async () => {
    const fault = { name: 'x', target: 'a', duration: 0, start: () => {} };
    const { moments } = await explore({ faults: [fault] }, async (world) => {
      world.exploring = false;
      await world.process('a').run(() => sleep(1));
    });
    expect(moments).toBe(0);
  });

  it('chooses the standard faults for the processes and servers of the scenario', async () => {
    const { faults } = await explore({ ...options, maxSeconds: 0 }, sale).then((result) => {
      expect(result.schedules).toBe(1);
      expect(result.skipped.late).toBeGreaterThan(100);
      return result;
    });
    const server = { servers: ['10.0.0.1:2181'] };
    expect(faults).toBe(
      standardFaults({ processes: ['a', 'b'], sessionTimeout: 1000, ...server }).length,
    );
  });

  it('fails as simulate() does if the scenario fails without a fault', async () => {
    const scenario = () => {
      throw new Error('always');
    };
    await expect(explore({}, scenario)).rejects.toThrow(SimulationError);
    await expect(explore({}, scenario)).rejects.toThrow('always');
  });

  it.each([
    [{ fault: [] }, /unknown option "fault" of explore\(\)/],
    [{ maxSeconds: -1 }, /maxSeconds must be from 0/],
    [{ shard: { index: 2, count: 2 } }, /shard\.index must be from 0 to 1, got 2/],
    [{ plan: [['lightning', 1]] }, /the plan has the unknown fault "lightning"/],
    [
      { plan: [['x', 10_000]] },
      /the run has \d+ moments, so the plan \[\["x",10000\]\] does not fit/,
    ],
    [{ faults: [{ name: 'x' }, { name: 'x' }] }, /two faults have the same name: x/],
  ])('refuses %j', async (wrong, message) => {
    const fault = { name: 'x', target: 'a', duration: 0, start: () => {} };
    const scenario = (world: World) => world.sleep(1);
    await expect(explore({ faults: [fault], ...wrong } as never, scenario)).rejects.toThrow(
      message,
    );
  });

  it('leaves no simulation running', async () => {
    await explore({ faults: [] }, (world) => world.sleep(1));
    await expect(simulate({ seed: 1 }, () => 'ran')).resolves.toMatchObject({ value: 'ran' });
  });
});
