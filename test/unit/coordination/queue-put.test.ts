import {
  DistributedQueue,
  JSON_SERIALIZER,
  type QueueOptions,
  type QueueSerializer,
} from 'nestjs-zookeeper/coordination/recipes';
import { NotAuthorizedError } from 'nestjs-zookeeper/recipes';
import { simulate, type World } from 'nestjs-zookeeper/testing';
import { describe, expect, it, vi } from 'vitest';

const PATH = '/queue';
const serializer = JSON_SERIALIZER as QueueSerializer<never>;

/** Starts a process with a queue that has one item. */
async function start(world: World, options: QueueOptions<string> = {}) {
  const process = world.process('producer');
  const client = await process.client({ sessionTimeout: 20_000 });
  const queue = new DistributedQueue<string>(client, PATH, { serializer, ...options });
  await process.run(() => queue.put('first'));
  /** Breaks the connection. Returns the function that lets the client connect again. */
  const disconnect = () => {
    const accept = process.link.refuseConnections();
    process.link.reset();
    return accept;
  };
  const items = () => world.children(PATH).length;
  return { process, client, queue, disconnect, items };
}

describe('a put without a connection', () => {
  it('rejects when its wait ends, and does not put the item later', async () => {
    await simulate({ seed: 1 }, async (world) => {
      const { process, queue, disconnect, items } = await start(world);
      const accept = disconnect();
      await world.sleep(10);
      const before = world.now;
      await expect(process.run(() => queue.put('item', { wait: 300 }))).rejects.toMatchObject({
        code: 'WAIT_TIMEOUT',
        message: expect.stringContaining(
          'no server replied to a put into the queue /queue within 300 ms',
        ),
      });
      expect(world.now - before).toBeLessThan(310);
      accept();
      await world.sleep(5_000);
      expect(items()).toBe(1);
    });
  });

  it('rejects when its signal aborts, and does not put the item later', async () => {
    await simulate({ seed: 2 }, async (world) => {
      const { process, queue, disconnect, items } = await start(world);
      const accept = disconnect();
      await world.sleep(10);
      const cancel = new AbortController();
      const put = process.run(() => queue.put('item', { signal: cancel.signal }));
      const rejected = expect(put).rejects.toMatchObject({ code: 'CANCELLED' });
      await world.sleep(50);
      cancel.abort();
      await rejected;
      accept();
      await world.sleep(5_000);
      expect(items()).toBe(1);
    });
  });

  it('rejects when the queue is closed', async () => {
    await simulate({ seed: 3 }, async (world) => {
      const { process, queue, disconnect, items } = await start(world);
      const accept = disconnect();
      await world.sleep(10);
      const put = expect(process.run(() => queue.put('item'))).rejects.toMatchObject({
        code: 'SHUTTING_DOWN',
      });
      await world.sleep(50);
      const before = world.now;
      await process.run(() => queue.close());
      await put;
      expect(world.now - before).toBeLessThan(10);
      accept();
      await world.sleep(5_000);
      expect(items()).toBe(1);
    });
  });
});

describe('a put whose reply is lost', () => {
  it('reports that the item may be in the queue when its wait ends', async () => {
    await simulate({ seed: 4 }, async (world) => {
      const { process, client, queue, items } = await start(world);
      world.loseReply('create', client);
      process.link.refuseConnections();
      await expect(process.run(() => queue.put('item', { wait: 300 }))).rejects.toMatchObject({
        code: 'CONNECTION',
        maybeApplied: true,
        message: expect.stringContaining('its wait ended before the reply'),
      });
      expect(items()).toBe(2);
    });
  });

  it('reports that the item may be in the queue when its signal aborts', async () => {
    await simulate({ seed: 5 }, async (world) => {
      const { process, client, queue, items } = await start(world);
      world.loseReply('create', client);
      process.link.refuseConnections();
      const cancel = new AbortController();
      const put = process.run(() => queue.put('item', { signal: cancel.signal }));
      const rejected = expect(put).rejects.toMatchObject({
        code: 'CONNECTION',
        maybeApplied: true,
        cause: { code: 'CANCELLED' },
      });
      await world.sleep(50);
      cancel.abort();
      await rejected;
      expect(items()).toBe(2);
    });
  });

  it('reports that the item may be in the queue when the queue is closed', async () => {
    await simulate({ seed: 6 }, async (world) => {
      const { process, client, queue, items } = await start(world);
      world.loseReply('create', client);
      process.link.refuseConnections();
      const put = process.run(() => queue.put('item'));
      const rejected = expect(put).rejects.toMatchObject({
        code: 'CONNECTION',
        maybeApplied: true,
        cause: { code: 'SHUTTING_DOWN' },
      });
      await world.sleep(50);
      await process.run(() => queue.close());
      await rejected;
      expect(items()).toBe(2);
    });
  });
});

it.each(['children', 'get'] as const)(
  'a put whose reply is lost reports a search that fails (%s)',
  async (request) => {
    await simulate({ seed: 10 }, async (world) => {
      const { process, client, queue } = await start(world);
      const denied = new NotAuthorizedError('denied');
      vi.spyOn(client, request).mockRejectedValueOnce(denied);
      world.loseReply('create', client);
      await expect(process.run(() => queue.put('item'))).rejects.toMatchObject({
        code: 'CONNECTION',
        maybeApplied: true,
        message: expect.stringContaining('the search for the item failed'),
        cause: denied,
      });
    });
  },
);

describe('a put whose reply does not come', () => {
  const maybePut = { code: 'CONNECTION', maybeApplied: true };

  it.each([
    [300, 300],
    [0, 2_000],
  ])('rejects at the end of its wait: %i', async (wait, limit) => {
    await simulate({ seed: 9 }, async (world) => {
      const { process, queue, items } = await start(world);
      process.link.cut('replies');
      const before = world.now;
      await expect(process.run(() => queue.put('item', { wait }))).rejects.toMatchObject({
        ...maybePut,
        message: expect.stringContaining('was sent, and its wait ended before the reply'),
        cause: { code: 'WAIT_TIMEOUT' },
      });
      expect(world.now - before).toBeLessThan(limit + 10);
      expect(items()).toBe(2);
    });
  });

  it('rejects when its signal aborts', async () => {
    await simulate({ seed: 11 }, async (world) => {
      const { process, queue } = await start(world);
      process.link.cut('replies');
      const cancel = new AbortController();
      const put = process.run(() => queue.put('item', { signal: cancel.signal }));
      const rejected = expect(put).rejects.toMatchObject(maybePut);
      await world.sleep(50);
      cancel.abort();
      const before = world.now;
      await rejected;
      expect(world.now - before).toBeLessThan(10);
    });
  });

  it('rejects 2 seconds after the close of the queue', async () => {
    await simulate({ seed: 12 }, async (world) => {
      const { process, queue } = await start(world);
      process.link.cut('replies');
      const put = expect(process.run(() => queue.put('item'))).rejects.toMatchObject(maybePut);
      await world.sleep(50);
      const before = world.now;
      await process.run(() => queue.close());
      await put;
      expect(world.now - before).toBeLessThan(2_010);
    });
  });
});

it('a put that was sent resolves if the reply comes soon after the close of the queue', async () => {
  await simulate({ seed: 13 }, async (world) => {
    const { process, queue } = await start(world);
    const heal = process.link.cut('replies');
    const put = process.run(() => queue.put('item'));
    await world.sleep(50);
    const closed = process.run(() => queue.close());
    heal();
    expect(await put).toBe('queue-0000000001');
    await closed;
  });
});

it('a put with an aborted signal puts nothing', async () => {
  await simulate({ seed: 7 }, async (world) => {
    const { process, queue, items } = await start(world);
    const put = process.run(() => queue.put('item', { signal: AbortSignal.abort() }));
    await expect(put).rejects.toMatchObject({ code: 'CANCELLED' });
    await world.sleep(100);
    expect(items()).toBe(1);
  });
});

it('a put into a full queue that is deleted creates the queue again', async () => {
  await simulate({ seed: 8 }, async (world) => {
    const { process, client, queue } = await start(world, { maxItems: 1 });
    const put = process.run(() => queue.put('item'));
    await world.sleep(50);
    await process.run(() =>
      client.transaction([{ delete: `${PATH}/queue-0000000000` }, { delete: PATH }]),
    );
    expect(await put).toBe('queue-0000000000');
    expect(await process.run(() => queue.size())).toBe(1);
  });
});
