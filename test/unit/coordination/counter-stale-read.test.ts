import { DistributedAtomicLong } from 'nestjs-zookeeper/coordination/recipes';
import { simulate } from 'nestjs-zookeeper/testing';
import { expect, it } from 'vitest';

it('compareAndSet() of a counter is not refused by the value of a server that lags behind', async () => {
  await simulate({ seed: 1, servers: 3, lag: [200, 200] }, async (world) => {
    const names = Array.from({ length: 6 }, (_, index) => `p${index}`);
    const changes = await Promise.all(
      names.map(async (name) => {
        const process = world.process(name);
        const counter = new DistributedAtomicLong(await process.client(), '/counter');
        return (value: bigint) => process.run(() => counter.compareAndSet(value, value + 1n));
      }),
    );
    let value = 0n;
    for (const change of [...changes, ...changes]) {
      expect(await change(value)).toMatchObject({ succeeded: true, preValue: value });
      value++;
    }
  });
});
