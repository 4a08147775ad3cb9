import { DistributedBarrier } from 'nestjs-zookeeper/coordination/recipes';
import { simulate } from 'nestjs-zookeeper/testing';
import { expect, it } from 'vitest';

it('waitOnBarrier() waits at a barrier that was set at another server', async () => {
  await simulate({ seed: 1, servers: 3, lag: [200, 200] }, async (world) => {
    const join = async (name: string) => {
      const process = world.process(name);
      const client = await process.client();
      const barrier = new DistributedBarrier(client, '/barrier');
      return {
        server: world.servers.find(({ sessionIds }) => sessionIds.includes(client.sessionId!)),
        set: () => process.run(() => barrier.setBarrier()),
        remove: () => process.run(() => barrier.removeBarrier()),
        wait: () => process.run(() => barrier.waitOnBarrier()),
      };
    };
    const [first, ...others] = await Promise.all(['a', 'b', 'c', 'd'].map(join));
    const waiting = others.find(({ server }) => server !== first!.server)!;
    await first!.set();
    let passed = false;
    const wait = waiting.wait().then(() => (passed = true));
    await world.sleep(5_000);
    expect(passed).toBe(false);
    await first!.remove();
    await wait;
  });
});
