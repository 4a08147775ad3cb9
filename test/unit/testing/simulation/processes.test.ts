import { setTimeout as pause } from 'node:timers/promises';
import { Mutex } from 'nestjs-zookeeper/recipes';
import { ProcessCrashedError, simulate } from 'nestjs-zookeeper/testing';
import { describe, expect, it } from 'vitest';

describe('a simulated process', () => {
  it('handles no events while it is paused, but its clocks continue', async () => {
    await simulate({ seed: 1 }, async (world) => {
      const process = world.process('a');
      const ticks: number[] = [];
      await process.run(() => void setInterval(() => ticks.push(performance.now()), 100));
      await world.sleep(250);
      process.pause();
      expect(process.paused).toBe(true);
      await world.sleep(1000);
      expect(ticks).toHaveLength(2);
      process.resume();
      await world.sleep(150);
      // The interval fires once for the whole pause, and again one interval later.
      expect(ticks).toHaveLength(4);
      expect(ticks[2]).toBeGreaterThan(1250);
      expect(ticks[3]! - ticks[2]!).toBeCloseTo(100, -1);
    });
  });

  it('has timers that stand still while its machine sleeps, whenever they were due', async () => {
    await simulate({ seed: 1 }, async (world) => {
      const process = world.process('a');
      const fired: number[] = [];
      await process.run(() => {
        for (const delay of [200, 900, 2000]) {
          setTimeout(() => fired.push(Math.round(world.now)), delay);
        }
      });
      await world.sleep(100);
      process.pause({ asleep: true });
      await world.sleep(1000);
      process.resume();
      await world.sleep(3000);
      // The first two came due during the sleep of 1000 ms.
      for (const [index, at] of [1200, 1900, 3000].entries()) {
        expect(Math.abs(fired[index]! - at)).toBeLessThanOrEqual(2);
      }
    });
  });

  it('handles either timers or replies first after a pause, as the seed decides', async () => {
    const orders = new Set<string>();
    for (let seed = 1; seed <= 30; seed++) {
      const { value } = await simulate({ seed }, async (world) => {
        const process = world.process('a');
        const client = await process.client();
        const events: string[] = [];
        await process.run(() => {
          for (let ms = 20; ms <= 40; ms += 10) setTimeout(() => events.push(`timer`), ms);
          const read = () => client.exists('/').then(() => events.push('reply'));
          void read().then(read);
        });
        await world.sleep(0.2);
        process.pause();
        await world.sleep(100);
        process.resume();
        await world.sleep(0.001);
        return events.slice(0, 2).join();
      });
      orders.add(value);
    }
    expect(orders.size).toBeGreaterThan(1);
  });

  it('handles no events while it is blocked, and its own code continues afterwards', async () => {
    await simulate({ seed: 2 }, async (world) => {
      const process = world.process('a');
      const other = world.process('b');
      const [blocked, free] = await Promise.all([
        process.run(() => {
          const timer = pause(10).then(() => performance.now());
          const before = performance.now();
          process.block(500);
          expect(performance.now() - before).toBeGreaterThan(499);
          return timer;
        }),
        other.run(() => pause(10).then(() => performance.now())),
      ]);
      expect(blocked).toBeGreaterThan(500);
      expect(free).toBeLessThan(12);
    });
  });

  it('can be blocked by the scenario, which is not blocked itself', async () => {
    await simulate({ seed: 3 }, async (world) => {
      const process = world.process('a');
      const fired = process.run(() => pause(10).then(() => world.now));
      process.block(500);
      expect(world.now).toBeLessThan(1);
      expect(await fired).toBeGreaterThan(499);
      await process.run(() => {});
    });
  });

  it('is not blocked by code of the scenario that runs after the scenario waited for it', async () => {
    await simulate({ seed: 4 }, async (world) => {
      const process = world.process('a');
      let fired = 0;
      await process.run(() => void setTimeout(() => (fired = performance.now()), 5));
      for (let reading = 0; reading < 100_000; reading++) performance.now();
      await world.sleep(1);
      expect(world.now).toBeGreaterThan(50);
      expect(fired).toBeLessThan(10);
    });
  });

  it('runs no code after a crash, not even a finally', async () => {
    await simulate({ seed: 5 }, async (world) => {
      const process = world.process('a');
      const client = await process.client();
      const ran: string[] = [];
      const reading = process.run(async () => {
        try {
          await client.get('/');
        } finally {
          ran.push('finally');
        }
      });
      const sleeping = process.run(() => pause(5).then(() => ran.push('timer')));
      const failures = Promise.allSettled([reading, sleeping]);
      // An unhandled rejection does not fail the simulation if it is due to a crash.
      void process.run(() => pause(1000));
      client.onState(() => ran.push('state'));
      await world.sleep(0.01);
      process.crash();
      expect(await failures).toMatchObject([
        { reason: { name: 'ProcessCrashedError' } },
        { reason: { message: 'the process a crashed' } },
      ]);
      await world.sleep(60_000);
      expect(ran).toEqual([]);
      expect(process.crashed).toBe(true);
      await expect(process.run(() => {})).rejects.toThrow(ProcessCrashedError);
    });
  });

  it('loses its connections when it crashes, and its server is notified unless the crash is silent', async () => {
    for (const silently of [false, true]) {
      await simulate({ seed: 7 }, async (world) => {
        const process = world.process('a');
        const client = await process.client({ sessionTimeout: 5000 });
        await process.run(async () => {
          await client.create('/node', '', { mode: 'ephemeral' });
          await client.watchExists('/watched');
        });
        expect(world.watchCount).toBe(1);
        process.crash({ silently });
        await world.sleep(100);
        expect(world.watchCount).toBe(silently ? 1 : 0);
        // The session ends with its timeout.
        expect(world.sessionIds).toHaveLength(1);
        expect(world.znodes().map(({ path }) => path)).toEqual(['/node']);
        await world.sleep(6000);
        expect(world.sessionIds).toEqual([]);
        expect(world.znodes()).toEqual([]);
        expect(world.watchCount).toBe(0);
      });
    }
  });

  it('cannot be used by other code after its crash', async () => {
    await simulate({ seed: 1, limit: 60_000 }, async (world) => {
      const process = world.process('a');
      const client = await process.client();
      process.crash();
      await expect(new Mutex(client, '/locks/one').withLock(async () => {})).rejects.toThrow(
        'a client of the process a was used after the process had crashed; use it in run()',
      );
    });
  });

  it('can be replaced by another process with the same name only after a crash', async () => {
    await simulate({ seed: 8 }, async (world) => {
      const first = world.process('a');
      expect(() => world.process('a')).toThrow('simulate: a process named "a" is already running');
      first.crash();
      const second = world.process('a');
      expect((await second.client()).sessionId).toBeDefined();
    });
  });

  it('ignores faults after its crash, and does not add them to the trace', async () => {
    await simulate({ seed: 8 }, async (world) => {
      const process = world.process('a');
      const heal = process.link.cut();
      process.crash();
      const traced = world.trace.length;
      process.pause();
      process.resume();
      process.block(10);
      process.stepClock(10);
      process.link.cut()();
      process.link.refuseConnections();
      process.link.reset();
      process.crash();
      expect(process).toMatchObject({ paused: false, link: { refuses: false } });
      expect(world.trace).toHaveLength(traced);
      // The cut began before the crash and held back messages to the servers.
      heal();
      expect(world.trace.at(-1)).toMatchObject({ process: 'a', event: 'network healed: both' });
    });
  });

  it('has its own wall clock, which can be stepped', async () => {
    await simulate({ seed: 9 }, async (world) => {
      const [a, b] = [world.process('a'), world.process('b')];
      a.stepClock(-60_000);
      const times = () => [Date.now(), performance.now()] as const;
      const [[wallOfA, ownOfA], [wallOfB, ownOfB]] = await Promise.all([
        a.run(times),
        b.run(times),
      ]);
      expect(wallOfB - wallOfA).toBe(60_000);
      expect(Math.abs(ownOfB - ownOfA)).toBeLessThan(1);
    });
  });

  it('has its own clock rate, also for timers', async () => {
    await simulate({ seed: 10 }, async (world) => {
      const fast = world.process('fast', { clockRate: 1.25 });
      const slow = world.process('slow', { clockRate: 0.8 });
      const sleep = async (process: typeof fast) => {
        const ownTime = await process.run(async () => {
          const before = performance.now();
          await pause(1000);
          return performance.now() - before;
        });
        return { ownTime, virtualTime: world.now };
      };
      const [a, b] = await Promise.all([sleep(fast), sleep(slow)]);
      expect(a.ownTime).toBeCloseTo(1000, -1);
      expect(b.ownTime).toBeCloseTo(1000, -1);
      expect(a.virtualTime).toBeCloseTo(800, -1);
      expect(b.virtualTime).toBeCloseTo(1250, -1);
    });
  });
});
