import { PersistentNode } from 'nestjs-zookeeper/coordination/recipes';
import { simulate } from 'nestjs-zookeeper/testing';
import { expect, it } from 'vitest';

it('close() of a persistent node ends within 2 seconds although its create has no reply', async () => {
  await simulate({ seed: 1 }, async (world) => {
    const process = world.process('a');
    const client = await process.client();
    const errors: Error[] = [];
    const onError = (error: Error) => void errors.push(error);
    const node = new PersistentNode(client, '/node', { onError });
    process.link.cut('replies');
    process.run(() => node.start());
    await world.sleep(50);
    const before = world.now;
    await process.run(() => node.close());
    expect(world.now - before).toBeLessThan(2_010);
    expect(errors[0]).toMatchObject({
      code: 'CONNECTION',
      message: expect.stringContaining('was closed, but its last request has no reply'),
    });
  });
});
