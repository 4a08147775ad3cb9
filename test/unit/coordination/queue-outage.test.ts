import { setTimeout as sleep } from 'node:timers/promises';
import {
  type ConsumeOptions,
  DistributedQueue,
  JSON_SERIALIZER,
  type QueueHandler,
  type QueueSerializer,
  type ZkClientOptions,
} from 'nestjs-zookeeper/coordination/recipes';
import { simulate, type World } from 'nestjs-zookeeper/testing';
import { describe, expect, it } from 'vitest';

const PATH = '/queue';
const serializer = JSON_SERIALIZER as QueueSerializer<never>;

/** Starts a process that consumes a queue with some items. */
async function start(
  world: World,
  items: readonly string[],
  handler: QueueHandler<string>,
  consume: ConsumeOptions,
  options: Partial<ZkClientOptions> = {},
) {
  const process = world.process('consumer');
  const client = await process.client({ sessionTimeout: 10_000, ...options });
  const queue = new DistributedQueue<string>(client, PATH, { serializer });
  const errors: string[] = [];
  const consumer = await process.run(async () => {
    await queue.putMulti(items);
    const onError = (error: Error) => void errors.push(error.message);
    return queue.consume(handler, { onError, ...consume });
  });
  const left = () => [...world.children(PATH), ...world.children(`${PATH}-locks`)];
  return { process, client, consumer, errors, left };
}

describe('the close of a consumer while the connection is lost', () => {
  it('ends after stopTimeout, and releases the lock of a running handler later', async () => {
    await simulate({ seed: 1 }, async (world) => {
      let aborted = false;
      const handler: QueueHandler<string> = (_, { signal }) =>
        new Promise<void>((resolve) => {
          signal.addEventListener('abort', () => {
            aborted = true;
            resolve();
          });
        });
      const { process, client, consumer, errors, left } = await start(world, ['item'], handler, {
        stopTimeout: 200,
      });
      await world.sleep(50);
      const accept = process.link.refuseConnections();
      process.link.reset();
      await world.sleep(10);
      const before = world.now;
      await process.run(() => consumer.close());
      expect(world.now - before).toBeLessThan(210);
      expect(aborted).toBe(true);
      expect(errors[0]).toContain('is not finished: ShuttingDownError');
      expect(left()).toHaveLength(2);
      const { sessionId } = client;
      accept();
      await world.sleep(5_000);
      expect(client.sessionId).toBe(sessionId);
      expect(left()).toHaveLength(1);
    });
  });

  it('ends after stopTimeout, and deletes an item that was handled later', async () => {
    await simulate({ seed: 2 }, async (world) => {
      const handled: string[] = [];
      const handler = async (item: string) => {
        await sleep(100);
        handled.push(item);
      };
      const { process, consumer, errors, left } = await start(world, ['item'], handler, {
        stopTimeout: 200,
      });
      await world.sleep(50);
      const accept = process.link.refuseConnections();
      process.link.reset();
      const before = world.now;
      await process.run(() => consumer.close());
      expect(world.now - before).toBeLessThan(210);
      expect(handled).toEqual(['item']);
      expect(errors).toEqual([expect.stringContaining('is not finished: ShuttingDownError')]);
      expect(left()).toHaveLength(2);
      accept();
      await world.sleep(5_000);
      expect(left()).toEqual([]);
    });
  });
});

describe("a suspended connection with the policy 'standard'", () => {
  /** Handles items while the connection is suspended once. Returns the items that were handled. */
  async function handleSuspended(world: World, items: readonly string[]) {
    const handled: [string, boolean][] = [];
    let onHandled = () => {};
    const done = new Promise<void>((resolve) => (onHandled = resolve));
    const handler: QueueHandler<string> = async (item, { signal }) => {
      await sleep(100);
      handled.push([item, signal.aborted]);
      onHandled();
    };
    const started = await start(world, items, handler, {}, { policy: 'standard' });
    const { process, errors, left } = started;
    await world.sleep(50);
    const accept = process.link.refuseConnections();
    process.link.reset();
    await done;
    accept();
    await world.sleep(5_000);
    expect(left()).toEqual([]);
    return { handled, errors };
  }

  it('does not repeat an item whose handler succeeded in the session', async () => {
    await simulate({ seed: 3 }, async (world) => {
      const { handled, errors } = await handleSuspended(world, ['item']);
      expect(handled).toEqual([['item', true]]);
      expect(errors).toEqual([]);
    });
  });

  it('repeats the items of a put if one of them was not handled', async () => {
    await simulate({ seed: 4 }, async (world) => {
      const { handled, errors } = await handleSuspended(world, ['one', 'two']);
      expect(handled).toEqual([
        ['one', true],
        ['one', false],
        ['two', false],
      ]);
      expect(errors).toEqual([expect.stringContaining('lost its lock in attempt 1')]);
    });
  });
});
