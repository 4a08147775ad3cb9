import { Injectable } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { setTimeout as pause } from 'node:timers/promises';
import {
  currentLease,
  DistributedLock,
  LeaderOnly,
  LeaderService,
  ZkModule,
} from 'nestjs-zookeeper';
import { Mutex, ReadWriteLock, Semaphore } from 'nestjs-zookeeper/recipes';
import { simulate, type World } from 'nestjs-zookeeper/testing';
import { describe, expect, it } from 'vitest';

@Injectable()
class Stock {
  @DistributedLock('stock', { wait: 60_000 })
  async take(): Promise<bigint> {
    await pause(20);
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
});
