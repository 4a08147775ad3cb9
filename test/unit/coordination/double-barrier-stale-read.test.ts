import { DistributedDoubleBarrier } from 'nestjs-zookeeper/coordination/recipes';
import { simulate } from 'nestjs-zookeeper/testing';
import { expect, it } from 'vitest';

it('leave() of a double barrier waits for a member that entered late at another server', async () => {
  await simulate({ seed: 1, servers: 3, lag: [200, 200] }, async (world) => {
    const join = async (name: string) => {
      const process = world.process(name);
      const client = await process.client();
      const barrier = new DistributedDoubleBarrier(client, '/barrier', 2);
      return {
        server: world.servers.find(({ sessionIds }) => sessionIds.includes(client.sessionId!)),
        enter: () => process.run(() => barrier.enter()),
        leave: () => process.run(() => barrier.leave()),
      };
    };
    const [first, second, ...others] = await Promise.all(['a', 'b', 'c', 'd', 'e'].map(join));
    const late = others.find(({ server }) => server !== first!.server)!;
    await Promise.all([first!.enter(), second!.enter()]);
    await late.enter();
    let left = false;
    const leaving = [first!.leave().then(() => (left = true)), second!.leave()];
    await world.sleep(5_000);
    expect(left).toBe(false);
    await Promise.all([...leaving, late.leave()]);
  });
});
