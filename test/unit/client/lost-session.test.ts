import { simulate } from 'nestjs-zookeeper/testing';
import { expect, it } from 'vitest';

const TIMEOUT = 20_000;

it('a lost session is closed when its holders have had its whole timeout to stop, although the servers would keep it for longer', async () => {
  await simulate({ seed: 1 }, async (world) => {
    const process = world.process('a');
    const client = await process.client({ sessionTimeout: TIMEOUT });
    const states: string[] = [];
    client.onState(({ state }) => states.push(state));
    await process.run(() => client.create('/held', '', { mode: 'ephemeral' }));
    const start = world.now;
    const heal = process.link.cut();
    // After a restart, the servers count the timeout from the beginning.
    const [server] = world.servers;
    await world.sleep(0.7 * TIMEOUT);
    server!.crash();
    server!.restart();
    await world.sleep(0.1 * TIMEOUT);
    heal();
    await world.sleep(0.95 * TIMEOUT - (world.now - start));
    expect(states).toEqual(['SUSPENDED', 'LOST', 'CONNECTED']);
    expect(world.znodes('/').map(({ path }) => path)).toContain('/held');
    await world.sleep(0.1 * TIMEOUT);
    expect(world.znodes('/').map(({ path }) => path)).not.toContain('/held');
  });
});
