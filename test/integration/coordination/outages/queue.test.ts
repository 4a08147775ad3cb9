import { setTimeout as sleep } from 'node:timers/promises';
import {
  DistributedQueue,
  JSON_SERIALIZER,
  type QueueSerializer,
} from 'nestjs-zookeeper/coordination';
import { NotAuthorizedError, type ZkClientOptions } from 'nestjs-zookeeper/recipes';
import { describe, expect, vi } from 'vitest';
import type { QueueOptions } from '../../../../lib/coordination/recipes/distributed-queue.js';
import type {
  ConsumeOptions,
  QueueHandler,
} from '../../../../lib/coordination/recipes/consume-options.js';
import { eventually } from '../../../support/eventually.js';
import { currentWorld, it } from '../../../support/virtual-time.js';

const PATH = '/queue';

/** Returns a queue of strings in a process of its own, whose link can fail. */
async function open(
  options: QueueOptions<string> = {},
  clientOptions: Partial<ZkClientOptions> = {},
) {
  const process = currentWorld().process(`process-${currentWorld().sessionIds.length}`);
  const { link } = process;
  const client = await process.client({ sessionTimeout: 20_000, ...clientOptions });
  const serializer = JSON_SERIALIZER as QueueSerializer<never>;
  const queue = new DistributedQueue<string>(client, PATH, { serializer, ...options });
  return {
    client,
    link,
    queue,
    /** Breaks the connection. Returns the function that lets the client connect again. */
    disconnect: () => {
      const accept = link.refuseConnections();
      link.reset();
      return accept;
    },
    /** Loses the next reply to such a request. Returns the function that lets the client connect again. */
    loseReply: (op: 'create' | 'delete') => {
      currentWorld().loseReply(op, client);
      return link.refuseConnections();
    },
  };
}

/** Returns a queue that has one item. */
async function producer(options?: QueueOptions<string>) {
  const opened = await open(options);
  await opened.queue.put('first');
  return opened;
}

/** Consumes the items of a queue into an array, and calls the handler with them. */
function collect(
  queue: DistributedQueue<string>,
  options: ConsumeOptions = {},
  handler: QueueHandler<string> = () => {},
) {
  const handled: string[] = [];
  const errors: string[] = [];
  const consumer = queue.consume(
    (item, context) => {
      handled.push(item);
      return handler(item, context);
    },
    { onError: ({ message }) => void errors.push(message), ...options },
  );
  return { handled, errors, consumer };
}

const items = () => currentWorld().children(PATH);
const locks = () => currentWorld().children(`${PATH}-locks`);

/** Returns the milliseconds until the promise settles. */
async function timeOf(promise: Promise<unknown>): Promise<number> {
  const before = performance.now();
  await promise.catch(() => {});
  return performance.now() - before;
}

describe('a put', () => {
  type Opened = Awaited<ReturnType<typeof producer>>;
  const lostReply = (code: string) => ({ code: 'CONNECTION', maybeApplied: true, cause: { code } });
  // The fault, the errors, the items at the end, and the milliseconds of a close before the put rejects.
  const faults = {
    'without a connection': [
      ({ disconnect }: Opened) => disconnect(),
      (code: string) => ({ code }),
      1,
      0,
    ],
    'whose reply is lost': [({ loseReply }: Opened) => loseReply('create'), lostReply, 2, 0],
    'whose reply does not come': [({ link }: Opened) => link.cut('replies'), lostReply, 2, 2_000],
  } as const;

  describe.each(Object.entries(faults))('%s', (_, [fault, error, left, closeTime]) => {
    /** Puts an item during the fault. Checks the error, and that the item is not put later. */
    async function checkPut(code: string, put: (opened: Opened) => Promise<unknown>, message = '') {
      const opened = await producer();
      const heal = fault(opened);
      await sleep(10);
      const rejected = expect(put(opened)).rejects.toMatchObject({
        ...error(code),
        message: expect.stringContaining(message),
      });
      const ms = await timeOf(rejected.then());
      await rejected;
      heal();
      await sleep(5_000);
      expect(items()).toHaveLength(left);
      return ms;
    }

    const message =
      left === 1
        ? 'no server replied to a put into the queue /queue within'
        : 'was sent, and its wait ended before the reply';

    it.each([
      [300, 300],
      [0, 2_000],
    ])('rejects at the end of its wait: %i', async (wait, limit) => {
      const ms = await checkPut(
        'WAIT_TIMEOUT',
        ({ queue }) => queue.put('item', { wait }),
        message,
      );
      expect(ms).toBeLessThan(limit + 10);
    });

    it('rejects when its signal aborts', async () => {
      const signal = AbortSignal.timeout(50);
      const ms = await checkPut('CANCELLED', ({ queue }) => queue.put('item', { signal }));
      expect(ms).toBeLessThan(60);
    });

    it('rejects when the queue is closed', async () => {
      const ms = await checkPut('SHUTTING_DOWN', ({ queue }) => {
        const put = queue.put('item');
        setTimeout(() => void queue.close(), 50);
        return put;
      });
      expect(ms).toBeLessThan(50 + closeTime + 10);
    });
  });

  it('whose reply is lost finds its item by the id in the data', async () => {
    const { queue, client } = await producer();
    currentWorld().loseReply('create', client);
    expect(await queue.put('second')).toBe('queue-0000000001');
    expect(items()).toHaveLength(2);
  });

  it.each(['children', 'get'] as const)(
    'whose reply is lost reports a search that fails (%s)',
    async (request) => {
      const { client, queue } = await producer();
      const denied = new NotAuthorizedError('denied');
      vi.spyOn(client, request).mockRejectedValueOnce(denied);
      currentWorld().loseReply('create', client);
      await expect(queue.put('item')).rejects.toMatchObject({
        code: 'CONNECTION',
        maybeApplied: true,
        message: expect.stringContaining('the search for the item failed'),
        cause: denied,
      });
    },
  );

  it('whose reply is lost reports that a consumer may have handled the item', async () => {
    const [{ queue, loseReply }, consumer] = [await open(), await open()];
    const { handled } = collect(consumer.queue);
    await sleep(100);
    const accept = loseReply('create');
    const rejected = expect(queue.put('item')).rejects.toMatchObject({
      code: 'CONNECTION',
      maybeApplied: true,
      message: expect.stringContaining('it was not put, or a consumer has handled it already'),
    });
    await sleep(200);
    accept();
    await rejected;
    expect(handled).toEqual(['item']);
  });

  it('resolves if its reply comes soon after the close of the queue', async () => {
    const { link, queue } = await producer();
    const heal = link.cut('replies');
    const put = queue.put('item');
    await sleep(50);
    const closed = queue.close();
    heal();
    expect(await put).toBe('queue-0000000001');
    await closed;
  });

  it('with an aborted signal puts nothing', async () => {
    const { queue } = await producer();
    const put = queue.put('item', { signal: AbortSignal.abort() });
    await expect(put).rejects.toMatchObject({ code: 'CANCELLED' });
    await sleep(100);
    expect(items()).toHaveLength(1);
  });

  it('into a full queue that is deleted creates the queue again', async () => {
    const { client, queue } = await producer({ maxItems: 1 });
    const put = queue.put('item');
    await sleep(50);
    await client.transaction([{ delete: `${PATH}/queue-0000000000` }, { delete: PATH }]);
    expect(await put).toBe('queue-0000000000');
    expect(await queue.size()).toBe(1);
  });
});

describe('a consumer', () => {
  it.each(['create', 'delete'] as const)(
    'handles an item once although a reply is lost (%s)',
    async (op) => {
      const [one, two] = [await producer(), await open()];
      currentWorld().loseReply(op, one.client);
      const { handled } = collect(one.queue);
      await sleep(10);
      const { handled: others } = collect(two.queue);
      await sleep(1_500);
      expect([...handled, ...others]).toEqual(['first']);
      expect([...items(), ...locks()]).toEqual([]);
    },
  );

  it('does not delete the lock of the next one after a lost reply to the deletion of its own', async () => {
    const [one, two] = [await producer(), await open()];
    // A failed item is not deleted, so the lost reply is that of its lock.
    const accept = one.loseReply('delete');
    collect(one.queue, { retryDelay: 60_000 }, () => {
      throw new Error('no');
    });
    await sleep(80);
    expect(locks()).toEqual([]);
    let handled = false;
    collect(two.queue, { retryDelay: 10 }, async () => {
      await sleep(1_000);
      handled = true;
    });
    await sleep(300);
    accept();
    for (let step = 0; step < 40; step++) {
      expect(locks()).toMatchObject([{ session: two.client.sessionId }]);
      await sleep(10);
    }
    await sleep(1_000);
    expect(handled).toBe(true);
    expect(items()).toEqual([]);
  });

  it('repeats a deletion of an item that did not reach the server', async () => {
    const { queue, link } = await producer();
    const { handled } = collect(queue, {}, () => {
      const heal = link.cut('requests');
      setTimeout(() => {
        link.reset();
        heal();
      }, 50);
    });
    await sleep(3_000);
    expect(handled).toEqual(['first']);
    expect([...items(), ...locks()]).toEqual([]);
  });

  it.each([
    ['releases the lock of an aborted handler later', Infinity, 1],
    ['deletes an item that was handled later', 100, 0],
  ])(
    'that is closed without a connection ends after stopTimeout, and %s',
    async (_, duration, left) => {
      const { client, disconnect, queue } = await producer();
      let aborted = false;
      const { consumer, errors } = collect(
        queue,
        { stopTimeout: 200 },
        async (_item, { signal }) => {
          const stopped = new Promise((resolve) => signal.addEventListener('abort', resolve));
          await Promise.race([
            stopped.then(() => (aborted = true)),
            sleep(Math.min(duration, 1e6)),
          ]);
        },
      );
      await sleep(50);
      const accept = disconnect();
      await sleep(10);
      expect(await timeOf(consumer.close())).toBeLessThan(210);
      expect(aborted).toBe(left === 1);
      expect(errors[0]).toContain('is not finished: ShuttingDownError');
      expect([...items(), ...locks()]).toHaveLength(2);
      const { sessionId } = client;
      accept();
      await sleep(5_000);
      expect(client.sessionId).toBe(sessionId);
      expect([items().length, locks().length]).toEqual([left, 0]);
    },
  );

  it.each([
    ['does not repeat an item whose handler succeeded in the session', ['one'], []],
    ['repeats the items of a put if one of them was not handled', ['one', 'two'], ['one', 'two']],
  ])("with the policy 'standard' that is suspended %s", async (_, put, repeated) => {
    const { disconnect, queue } = await open({}, { policy: 'standard' });
    await queue.putMulti(put);
    const ended: [string, boolean][] = [];
    const { errors } = collect(queue, {}, async (item, { signal }) => {
      await sleep(100);
      ended.push([item, signal.aborted]);
    });
    await sleep(50);
    const accept = disconnect();
    await eventually(() => expect(ended).toEqual([['one', true]]));
    accept();
    await sleep(5_000);
    expect(ended.slice(1)).toEqual(repeated.map((item) => [item, false]));
    expect([...items(), ...locks()]).toEqual([]);
    const lost = expect.stringContaining('lost its lock in attempt 1');
    expect(errors).toEqual(repeated.length > 0 ? [lost] : []);
  });
});
