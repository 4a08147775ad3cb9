import { GroupMember, ZkCache } from 'nestjs-zookeeper/coordination/recipes';
import { simulate, type World } from 'nestjs-zookeeper/testing';
import { expect, it } from 'vitest';
import type { ZkClient } from '../../../lib/client/index.js';

interface Recipe {
  start(): void;
  close(): Promise<void>;
}

/** Starts a recipe, and closes it while the server does not reply. Returns the milliseconds of the close. */
async function close(world: World, open: (client: ZkClient) => Recipe, isStarted: boolean) {
  const process = world.process('a');
  const client = await process.client({ sessionTimeout: 30_000 });
  const recipe = open(client);
  if (isStarted) process.run(() => recipe.start());
  await world.sleep(50);
  process.link.cut('replies');
  if (!isStarted) process.run(() => recipe.start());
  await world.sleep(50);
  const before = world.now;
  await process.run(() => recipe.close());
  return world.now - before;
}

it.each([false, true])(
  'close() of a member ends within 2 seconds without a reply (joined before: %s)',
  async (isStarted) => {
    await simulate({ seed: 1 }, async (world) => {
      const open = (client: ZkClient) => new GroupMember(client, '/group');
      expect(await close(world, open, isStarted)).toBeLessThan(2_010);
    });
  },
);

it('close() of a cache ends within 2 seconds although its first read has no reply', async () => {
  await simulate({ seed: 1 }, async (world) => {
    const open = (client: ZkClient) => new ZkCache(client, '/cache');
    expect(await close(world, open, false)).toBeLessThan(2_010);
  });
});
