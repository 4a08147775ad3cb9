import { setTimeout as sleep } from 'node:timers/promises';
import {
  DistributedQueue,
  JSON_SERIALIZER,
  type QueueSerializer,
  type ZkClient,
} from 'nestjs-zookeeper/coordination/recipes';
import { simulate, type World } from 'nestjs-zookeeper/testing';
import { describe, expect, it } from 'vitest';

const PATH = '/queue';
const LOCKS = `${PATH}-locks`;

const open = (client: ZkClient) =>
  new DistributedQueue<string>(client, PATH, {
    serializer: JSON_SERIALIZER as QueueSerializer<never>,
  });

/** Starts a process with a client and a queue. */
async function start(world: World, name: string) {
  const process = world.process(name);
  const client = await process.client({ sessionTimeout: 2_000 });
  return { process, client, queue: open(client) };
}

describe('a lost reply', () => {
  it('to a put is resolved by the id in the data, while the item is in the queue', async () => {
    await simulate({ seed: 1 }, async (world) => {
      const { process, client, queue } = await start(world, 'producer');
      await process.run(() => queue.put('first'));
      world.loseReply('create', client);
      expect(await process.run(() => queue.put('second'))).toBe('queue-0000000001');
      expect(world.children(PATH)).toHaveLength(2);
    });
  });

  it('to a put that was handled meanwhile is reported as maybeApplied', async () => {
    await simulate({ seed: 2 }, async (world) => {
      const producer = await start(world, 'producer');
      const consumer = await start(world, 'consumer');
      const handled: string[] = [];
      consumer.process.run(() => consumer.queue.consume((item) => void handled.push(item)));
      await world.sleep(100);
      world.loseReply('create', producer.client);
      const accept = producer.process.link.refuseConnections();
      const put = producer.process.run(() => producer.queue.put('item'));
      const rejected = expect(put).rejects.toMatchObject({
        code: 'CONNECTION',
        maybeApplied: true,
        message: expect.stringContaining('it was not put, or a consumer has handled it already'),
      });
      await world.sleep(200);
      accept();
      await rejected;
      expect(handled).toEqual(['item']);
    });
  });

  it('to the create of a lock does not keep the item from being handled, once', async () => {
    await simulate({ seed: 3 }, async (world) => {
      const one = await start(world, 'one');
      const two = await start(world, 'two');
      await one.process.run(() => one.queue.put('item'));
      world.loseReply('create', one.client);
      const handled: string[] = [];
      one.process.run(() => one.queue.consume(() => void handled.push('one')));
      await world.sleep(10);
      two.process.run(() => two.queue.consume(() => void handled.push('two')));
      await world.sleep(1_000);
      expect(handled).toEqual(['one']);
      expect([...world.children(PATH), ...world.children(LOCKS)]).toEqual([]);
    });
  });

  it('to the deletion of a lock does not make a consumer delete the lock of the next one', async () => {
    await simulate({ seed: 4 }, async (world) => {
      const one = await start(world, 'one');
      const two = await start(world, 'two');
      await one.process.run(() => one.queue.put('item'));
      // A failed item is not deleted, so the lost reply is that of its lock.
      world.loseReply('delete', one.client);
      const accept = one.process.link.refuseConnections();
      const fail = () => {
        throw new Error('no');
      };
      one.process.run(() => one.queue.consume(fail, { retryDelay: 60_000, onError: () => {} }));
      await world.sleep(80);
      expect(world.children(LOCKS)).toEqual([]);
      let handled = false;
      const handler = async () => {
        await sleep(1_000);
        handled = true;
      };
      two.process.run(() => two.queue.consume(handler, { retryDelay: 10 }));
      await world.sleep(300);
      accept();
      const sessionOfTwo = two.client.sessionId;
      for (let step = 0; step < 40; step++) {
        expect(world.children(LOCKS).map(({ session }) => session)).toEqual([sessionOfTwo]);
        await world.sleep(10);
      }
      await world.sleep(1_000);
      expect(handled).toBe(true);
      expect(world.children(PATH)).toEqual([]);
    });
  });

  it('to the deletion of an item is resolved before the lock is released', async () => {
    await simulate({ seed: 5 }, async (world) => {
      const one = await start(world, 'one');
      const two = await start(world, 'two');
      await one.process.run(() => one.queue.put('item'));
      world.loseReply('delete', one.client);
      const handled: string[] = [];
      one.process.run(() => one.queue.consume(() => void handled.push('one')));
      two.process.run(() => two.queue.consume(() => void handled.push('two')));
      await world.sleep(1_500);
      expect(handled).toHaveLength(1);
      expect([...world.children(PATH), ...world.children(LOCKS)]).toEqual([]);
    });
  });
});

it('a deletion of an item that did not reach the server is repeated', async () => {
  await simulate({ seed: 6 }, async (world) => {
    const one = await start(world, 'one');
    const handled: string[] = [];
    await one.process.run(() => one.queue.put('item'));
    one.process.run(() =>
      one.queue.consume((item) => {
        handled.push(item);
        const { link } = one.process;
        const heal = link.cut('requests');
        world.at(world.now + 50, () => {
          link.reset();
          heal();
        });
      }),
    );
    await world.sleep(3_000);
    expect(handled).toEqual(['item']);
    expect([...world.children(PATH), ...world.children(LOCKS)]).toEqual([]);
  });
});
