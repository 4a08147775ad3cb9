import { setTimeout as delay } from 'node:timers/promises';
import { type Lease, Mutex } from 'nestjs-zookeeper/recipes';
import { simulate } from 'nestjs-zookeeper/testing';
import { expect, it } from 'vitest';

const SESSION_TIMEOUT = 1_000;

it('a process that pauses during a reconnect does not trust its expired session because of an old reply', async () => {
  const overlaps: number[] = [];
  for (let pausedAfter = 50; pausedAfter <= 200; pausedAfter += 10) {
    await simulate({ seed: 1, latency: [20, 20] }, async (world) => {
      const [a, b] = [world.process('a'), world.process('b')];
      const holder = await a.client({ sessionTimeout: SESSION_TIMEOUT });
      const waiter = await b.client({ sessionTimeout: 60_000 });
      const lease: Lease = await a.run(() => new Mutex(holder, '/lock').acquire());
      const next = b.run(() => new Mutex(waiter, '/lock').acquire());
      await world.sleep(200);
      a.link.reset();
      await world.sleep(pausedAfter);
      a.pause();
      const later: Lease = await next;
      const looked = a.run(async () => {
        for (let ms = 0; ms < SESSION_TIMEOUT; ms++) {
          if (lease.held && later.held) return overlaps.push(pausedAfter);
          await delay(1);
        }
        return undefined;
      });
      a.resume();
      await looked;
    });
  }
  expect(overlaps).toEqual([]);
});
