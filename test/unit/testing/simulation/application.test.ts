import { Injectable } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { setTimeout as pause } from 'node:timers/promises';
import {
  currentLease,
  DistributedLock,
  LeaderOnly,
  LeaderService,
  LockService,
  ZkModule,
} from 'nestjs-zookeeper';
import { LeaderLatch, Mutex, ReadWriteLock, Semaphore } from 'nestjs-zookeeper/recipes';
import { simulate, type World } from 'nestjs-zookeeper/testing';
import { describe, expect, it } from 'vitest';

@Injectable()
class Stock {
  static holders = 0;
  static maxHolders = 0;

  @DistributedLock('stock', { wait: 60_000 })
  async take(): Promise<bigint> {
    Stock.maxHolders = Math.max(Stock.maxHolders, ++Stock.holders);
    await pause(20);
    Stock.holders--;
    return currentLease()!.fencingToken;
  }

  @LeaderOnly('stock')
  async count(): Promise<string | undefined> {
    return 'counted';
  }
}

/** Starts an application in a process of its own. */
async function startApplication(world: World, name: string) {
  const process = world.process(name);
  const module = await process.run(async () => {
    const builder = Test.createTestingModule({
      imports: [
        ZkModule.forRoot({ connectString: 'production.example:2181', elections: ['stock'] }),
      ],
      providers: [Stock],
    });
    const compiled = await process.override(builder).compile();
    return compiled.init();
  });
  return { process, module, stock: module.get(Stock) };
}

describe('an application in simulated processes', () => {
  it('acquires locks by decorator and by service, and never two at a time', async () => {
    Stock.holders = Stock.maxHolders = 0;
    const { value: tokens } = await simulate({ seed: 1, servers: 3 }, async (world) => {
      const apps = await Promise.all(['a', 'b', 'c'].map((name) => startApplication(world, name)));
      const takes = await Promise.all(
        apps.flatMap(({ process, stock }) => [1, 2, 3].map(() => process.run(() => stock.take()))),
      );
      for (const { process, module } of apps) {
        const lock = () => module.get(LockService).withLock('stock', () => pause(5));
        await process.run(lock);
        await process.run(() => module.close());
      }
      expect(world.sessionIds).toEqual([]);
      return takes;
    });
    expect(Stock.maxHolders).toBe(1);
    expect(new Set(tokens).size).toBe(9);
  });

  it('takes over the lock and the leadership of a crashed application', async () => {
    await simulate({ seed: 2 }, async (world) => {
      const [a, b] = [await startApplication(world, 'a'), await startApplication(world, 'b')];
      await world.sleep(100);
      const count = (app: typeof a) => app.process.run(() => app.stock.count());
      expect([await count(a), await count(b)].filter(Boolean)).toEqual(['counted']);
      const leads = (app: typeof a) =>
        app.process.run(() => app.module.get(LeaderService).isLeader('stock'));
      const [leader, follower] = (await leads(a)) ? [a, b] : [b, a];
      void leader.process.run(() => leader.stock.take());
      await world.sleep(10);
      leader.process.crash({ silently: true });
      const token = await follower.process.run(() => follower.stock.take());
      expect(token).toBeGreaterThan(0n);
      await world.sleep(60_000);
      expect(await count(follower)).toBe('counted');
      await follower.process.run(() => follower.module.close());
    });
  });

  it('does the same in two runs of one seed', async () => {
    const run = () =>
      simulate({ seed: 3, servers: 3 }, async (world) => {
        const apps = await Promise.all(['a', 'b'].map((name) => startApplication(world, name)));
        await Promise.all(apps.map(({ process, stock }) => process.run(() => stock.take())));
        await Promise.all(apps.map(({ process, module }) => process.run(() => module.close())));
      });
    const first = await run();
    expect((await run()).digest).toBe(first.digest);
  });
});

describe('recipes in simulated processes', () => {
  it('exclude other holders, and leave no timers, watches or znodes', async () => {
    for (let seed = 1; seed <= 5; seed++) {
      await simulate({ seed, servers: 3 }, async (world) => {
        const inside = { mutex: 0, permits: 0, writers: 0, readers: 0 };
        const enter = async (kind: keyof typeof inside, max: number) => {
          expect(++inside[kind]).toBeLessThanOrEqual(max);
          expect(inside.writers > 0 && inside.readers > 0).toBe(false);
          await pause(Math.random() * 10);
          inside[kind]--;
        };
        await Promise.all(
          ['a', 'b', 'c'].map(async (name) => {
            const process = world.process(name);
            const client = await process.client();
            await process.run(async () => {
              const mutex = new Mutex(client, '/locks/mutex');
              const semaphore = new Semaphore(client, '/locks/semaphore', { permits: 2 });
              const lock = new ReadWriteLock(client, '/locks/shared');
              for (let round = 0; round < 10; round++) {
                await mutex.withLock(() => enter('mutex', 1));
                await semaphore.withLock(() => enter('permits', 2));
                await lock.write.withLock(() => enter('writers', 1));
                await lock.read.withLock(() => enter('readers', 3));
              }
              await client.close();
            });
            // close() has scheduled callbacks for the next turn, and a timer of 50 ms may serve later holders.
            await world.sleep(51);
            expect([...process.timers]).toEqual([]);
          }),
        );
        expect(world.watchCount).toBe(0);
        await world.sleep(5000);
        expect(world.znodes()).toEqual([]);
      });
    }
  });

  it('lose their leases in a pause that is longer than the session timeout', async () => {
    await simulate({ seed: 1 }, async (world) => {
      const [a, b] = [world.process('a'), world.process('b')];
      const [first, second] = [
        await a.client({ sessionTimeout: 2000 }),
        await b.client({ sessionTimeout: 2000 }),
      ];
      const lease = await a.run(() => new Mutex(first, '/locks/one').acquire());
      a.pause();
      const next = await b.run(() => new Mutex(second, '/locks/one').acquire());
      expect(next.fencingToken).toBeGreaterThan(lease.fencingToken);
      a.resume();
      await world.sleep(1);
      expect(lease.signal.aborted).toBe(true);
    });
  });

  it('elect another leader after a crash', async () => {
    await simulate({ seed: 1 }, async (world) => {
      const latches = await Promise.all(
        ['a', 'b'].map(async (name) => {
          const process = world.process(name);
          const client = await process.client({ sessionTimeout: 2000 });
          const latch = new LeaderLatch(client, '/election');
          await process.run(() => latch.start());
          return { process, latch };
        }),
      );
      await world.sleep(1000);
      const leader = latches.find(({ latch }) => latch.hasLeadership)!;
      leader.process.crash({ silently: true });
      await world.sleep(5000);
      expect(latches.find((each) => each !== leader)!.latch.hasLeadership).toBe(true);
    });
  });
});
