import { setImmediate } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { Mutex } from 'nestjs-zookeeper/recipes';
import { simulate } from 'nestjs-zookeeper/testing';
import { currentChain } from '../../../lib/kernel/call-chain.js';

it('a call chain does not grow with work that starts its next run before its lease is released', async () => {
  await simulate({ seed: 1 }, async (world) => {
    const process = world.process('a');
    const client = await process.client();
    const mutex = new Mutex(client, '/poll');
    let longest = 0;
    let last: Promise<void> | undefined;
    const poll = (runs: number): Promise<void> =>
      mutex.withLock(() => {
        let length = 0;
        for (let chain = currentChain(); chain; chain = chain.outer) length++;
        longest = Math.max(longest, length);
        last = runs > 0 ? setImmediate().then(() => poll(runs - 1)) : undefined;
      });
    await process.run(async () => {
      await poll(20);
      while (last) await last;
      await client.close();
    });
    expect(longest).toBe(1);
  });
});
