import { Mutex } from 'nestjs-zookeeper/recipes';
import { simulate } from 'nestjs-zookeeper/testing';
import { expect, it } from 'vitest';

it('a revocation reaches a holder that the server of the caller does not know yet', async () => {
  for (let seed = 1; seed <= 10; seed++) {
    await simulate({ seed, servers: 3, lag: [500, 500] }, async (world) => {
      const [holder, other] = [world.process('holder'), world.process('other')];
      const [held, revoking] = [await holder.client(), await other.client()];
      const lease = await holder.run(() => new Mutex(held, '/lock').acquire());
      await other.run(() => new Mutex(revoking, '/lock').revoke());
      await world.sleep(1100);
      expect(await holder.run(() => lease.revocation.aborted), `seed ${seed}`).toBe(true);
    });
  }
});
