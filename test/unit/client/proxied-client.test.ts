import { Mutex } from 'nestjs-zookeeper/recipes';
import { simulate } from 'nestjs-zookeeper/testing';
import { expect, it } from 'vitest';

it('a recipe works with a Proxy around the client, as tracers of Nest put around providers', async () => {
  await simulate({ seed: 1 }, async (world) => {
    const process = world.process('a');
    const client = await process.client();
    const proxy = new Proxy(client, {
      get: (target, name) => {
        const value: unknown = Reflect.get(target, name);
        return typeof value === 'function' ? (value.bind(target) as unknown) : value;
      },
    });
    await process.run(async () => {
      expect(await new Mutex(proxy, '/till').withLock(() => 'held')).toBe('held');
      await client.close();
    });
  });
});
