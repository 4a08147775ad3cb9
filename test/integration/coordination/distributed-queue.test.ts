import { setTimeout as sleep } from 'node:timers/promises';
import {
  DistributedQueue,
  JSON_SERIALIZER,
  QueueFullError,
  QueueItemError,
} from 'nestjs-zookeeper/coordination';
import { RecipeConflictError } from 'nestjs-zookeeper/recipes';
import { describe, expect, vi } from 'vitest';
import type { QueueOptions } from '../../../lib/coordination/recipes/distributed-queue.js';
import type {
  ConsumeOptions,
  QueueHandler,
} from '../../../lib/coordination/recipes/consume-options.js';
import type { ZkClient } from '../../../lib/client/index.js';
import { encodeItems } from '../../../lib/coordination/recipes/internals/queue-items.js';
import { expire, useClients } from '../../support/clients.js';
import { isSimulated } from '../../support/environment.js';
import { eventually } from '../../support/eventually.js';
import { Gate } from '../../support/gate.js';
import { nodesUnder } from '../../support/recipe-nodes.js';
import { useServer } from '../../support/servers.js';
import { afterEach, beforeEach, it } from '../../support/virtual-time.js';

const server = useServer();
const connect = useClients(server);
let client: ZkClient;
let path: string;
beforeEach(async () => {
  client = await connect();
  path = server.path('queue');
});

// Runs before the clients are closed.
const opened: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const queue of opened.splice(0)) await queue.close();
});

/** Returns a queue of JSON values, which is closed after the test. */
function open<T = string>(options: QueueOptions<T> = {}, of = client) {
  const serializer = JSON_SERIALIZER as QueueOptions<T>['serializer'];
  const queue = new DistributedQueue<T>(of, path, { serializer, ...options });
  opened.push(queue);
  return queue;
}

/** Consumes the items of a queue into an array, and calls the handler with them. */
function collect<T>(
  queue: Pick<DistributedQueue<T>, 'consume'>,
  options: ConsumeOptions = {},
  handler: QueueHandler<T> = () => {},
) {
  const handled: T[] = [];
  const errors: Error[] = [];
  const consumer = queue.consume(
    (item, context) => {
      handled.push(item);
      return handler(item, context);
    },
    { onError: (error) => void errors.push(error), ...options },
  );
  return { handled, errors, consumer, messages: () => errors.map(({ message }) => message) };
}

/** Checks the times of attempts, between which the delay doubles. */
function checkDelays(times: readonly number[], first: number) {
  const delays = times.slice(1).map((time, index) => time - times[index]!);
  for (const [index, delay] of delays.entries()) {
    // A real timer of Node may end a millisecond early.
    expect(delay).toBeGreaterThanOrEqual((first - 2) * 2 ** index);
    if (isSimulated) expect(delay).toBeLessThan((first + 20) * 2 ** index);
  }
}

const numbers = (count: number) => Array.from({ length: count }, (_, index) => `item ${index}`);
const locks = () => nodesUnder(client, `${path}-locks`);
const isEmpty = () => eventually(async () => expect(await nodesUnder(client, path)).toEqual([]));
const allow = (znode: string, permissions: string) =>
  client.setAcl(znode, [{ scheme: 'world', id: 'anyone', permissions }]);

describe('a distributed queue', () => {
  it('passes the items to one consumer in the order of their puts, and deletes them', async () => {
    const queue = open();
    for (const item of numbers(20)) await queue.put(item);
    expect(await queue.size()).toBe(20);
    const { handled } = collect(queue);
    await isEmpty();
    await queue.put('last');
    await eventually(() => expect(handled).toEqual([...numbers(20), 'last']));
    await queue.close();
    expect([...(await nodesUnder(client, path)), ...(await locks())]).toEqual([]);
  });

  it('handles as many items at the same time as concurrency allows', async () => {
    const queue = open();
    const gate = new Gate();
    await Promise.all(numbers(8).map((item) => queue.put(item)));
    let running = 0;
    let most = 0;
    collect(queue, { concurrency: 3 }, async () => {
      most = Math.max(most, ++running);
      await gate.pass();
      running--;
    });
    await eventually(() => expect(running).toBe(3));
    gate.open();
    await isEmpty();
    expect(most).toBe(3);
  });

  it('passes the items of one put one after the other, and the bytes of items without a serializer', async () => {
    const queue = new DistributedQueue(client, path);
    opened.push(queue);
    const items = [Buffer.from([0, 255]), Buffer.alloc(0), Buffer.from('text')];
    const { handled } = collect(queue, { concurrency: 4 });
    await queue.putMulti(items);
    await eventually(() => expect(handled).toEqual(items));
  });
});

describe('a queue with priorities', () => {
  it('passes items with a lower number first, and equal ones in order', async () => {
    const queue = open<unknown>({ prioritized: true });
    const priorities = [7, -1, 0, 2 ** 31 - 1, 7, -(2 ** 31)];
    for (const [index, priority] of priorities.entries()) {
      await queue.put({ priority, index }, { priority });
    }
    const { handled } = collect(queue);
    await eventually(() =>
      expect(handled).toEqual([
        { priority: -(2 ** 31), index: 5 },
        { priority: -1, index: 1 },
        { priority: 0, index: 2 },
        { priority: 7, index: 0 },
        { priority: 7, index: 4 },
        { priority: 2 ** 31 - 1, index: 3 },
      ]),
    );
  });

  it('passes an urgent item before the items that were listed already', async () => {
    const queue = open<unknown>({ prioritized: true });
    for (const item of ['first', 'second', 'third']) await queue.put(item, { priority: 5 });
    const { handled } = collect(queue, {}, async (item) => {
      if (item === 'first') await queue.put('urgent', { priority: 1 });
    });
    await eventually(() => expect(handled).toEqual(['first', 'urgent', 'second', 'third']));
  });
});

describe('the lock of an item', () => {
  it('makes another consumer handle the item after the session of the first is lost', async () => {
    const [first, second] = [open(), open({}, await connect())];
    const reasons: unknown[] = [];
    const { errors, handled: started } = collect(first, {}, async (_, { signal }) => {
      await new Promise((resolve) => signal.addEventListener('abort', resolve));
      reasons.push(signal.reason);
    });
    await second.put('an item');
    await eventually(() => expect(started).toHaveLength(1));
    const { handled } = collect(second);
    const closing = first.close();
    await expire(client, server);
    await eventually(() => expect(handled).toEqual(['an item']));
    await closing;
    expect(reasons).toMatchObject([{ code: 'LEASE_LOST' }]);
    expect(errors).toEqual([expect.any(QueueItemError)]);
    expect(errors[0]!.message).toContain('lost its lock in attempt 1');
  });

  // The lock is watched 50 ms after it was acquired.
  it.each([0, 100])(
    'aborts the signal of the handler when another client deletes it after %i ms',
    async (after) => {
      const queue = open();
      const reasons: unknown[] = [];
      const { messages } = collect(queue, {}, async (_, { signal, attempt, name }) => {
        if (reasons.length > 0 || attempt > 1) return;
        await sleep(after);
        await client.delete(`${path}-locks/${name}`);
        await new Promise((resolve) => signal.addEventListener('abort', resolve));
        reasons.push(signal.reason);
      });
      await queue.put('an item');
      await isEmpty();
      expect(reasons).toMatchObject([{ code: 'LEASE_LOST' }]);
      expect(messages()).toEqual([expect.stringContaining('a client deleted its znode')]);
    },
  );

  it('is respected if another program has it, and reported once if it is a persistent znode', async () => {
    const queue = open();
    const foreign = `${path}-locks/${await queue.put('locked')}`;
    const persistent = `${path}-locks/${await queue.put('blocked')}`;
    await client.ensureContainers(`${path}-locks`);
    await client.create(foreign, 'java', { mode: 'ephemeral' });
    await client.create(persistent);
    const { handled, messages } = collect(queue);
    await queue.put('free');
    await eventually(() => expect(handled).toEqual(['free']));
    await queue.put('later');
    await eventually(() => expect(handled).toEqual(['free', 'later']));
    await eventually(() => expect(messages()).toHaveLength(1));
    await client.delete(foreign);
    await eventually(() => expect(handled.at(-1)).toBe('locked'));
    await client.delete(persistent);
    await eventually(() => expect(handled.at(-1)).toBe('blocked'));
    expect(messages()).toEqual([
      expect.stringContaining(
        `is not handled: its lock ${persistent} is a persistent znode: delete it`,
      ),
    ]);
  });
});

describe('an item whose handler throws', () => {
  it('is handled again after a delay, while other items are handled', async () => {
    const queue = open();
    const attempts: [string, number][] = [];
    await queue.put('bad');
    await queue.put('good');
    const { errors } = collect(queue, { retryDelay: 20 }, (item, { attempt }) => {
      attempts.push([item, attempt]);
      if (item === 'bad' && attempt < 3) throw new Error(`no ${attempt}`);
    });
    await isEmpty();
    expect(attempts).toEqual([
      ['bad', 1],
      ['good', 1],
      ['bad', 2],
      ['bad', 3],
    ]);
    expect(errors.map(({ cause }) => (cause as Error).message)).toEqual(['no 1', 'no 2']);
    expect(errors[0]).toMatchObject({ code: 'QUEUE_ITEM', item: 'queue-0000000000' });
  });

  it('is handled by another consumer after its delay and after other items, with its number of attempts', async () => {
    const failing = open();
    const { handled: failed, consumer } = collect(failing, { retryDelay: 60_000 }, () => {
      throw new Error('the database is down');
    });
    for (const item of numbers(3)) await failing.put(item);
    await eventually(() => expect(failed).toHaveLength(3));
    await consumer.close();
    await failing.put('good');
    const handled: [string, number][] = [];
    collect(open({}, await connect()), { retryDelay: 100 }, (item, { attempt }) => {
      handled.push([item, attempt]);
    });
    await isEmpty();
    expect(handled[0]).toEqual(['good', 1]);
    expect(handled.slice(1).toSorted()).toEqual(numbers(3).map((item) => [item, 2]));
  });

  it('makes all consumers together wait for the delay, which doubles', async () => {
    const clients = [client, await connect(), await connect()];
    const times: number[] = [];
    const queues = clients.map((each) => open({}, each));
    for (const queue of [...queues, ...queues]) {
      collect(queue, { retryDelay: 50 }, (_, { attempt }) => {
        expect(attempt).toBe(times.push(performance.now()));
        if (attempt < 4) throw new Error('no');
      });
    }
    await queues[0]!.put('an item');
    await isEmpty();
    expect(times).toHaveLength(4);
    checkDelays(times, 50);
  });

  it("is deleted with errorMode 'delete', after the other items of its put were handled", async () => {
    const queue = open();
    const { handled, messages } = collect(queue, { errorMode: 'delete' }, (item) => {
      // This value cannot be converted to a string.
      if (item === 'bad') throw Object.create(null);
    });
    await queue.putMulti(['bad', 'good']);
    await isEmpty();
    expect(handled).toEqual(['bad', 'good']);
    expect(messages()).toEqual([
      expect.stringContaining('failed in attempt 1 (error mode delete): [object Object]'),
    ]);
  });
});

describe('an item that is unreadable', () => {
  const readable = encodeItems({
    items: [Buffer.from('"readable"')],
    id: Buffer.alloc(16),
    attempts: 0,
  });
  const createUnreadable = () =>
    client.create(`${path}/queue-`, 'no items', { mode: 'persistent-sequential' });

  it('stays in the queue until it is corrected, does not prevent the others, and is reported once', async () => {
    const queue = open();
    await queue.put('first');
    const unreadable = await createUnreadable();
    await queue.put('last');
    const { handled, messages } = collect(queue, { retryDelay: 20 });
    await eventually(() => expect(handled).toEqual(['first', 'last']));
    await queue.put('later');
    await eventually(() => expect(handled).toEqual(['first', 'last', 'later']));
    expect(await nodesUnder(client, path)).toEqual(['queue-0000000001']);
    await client.set(unreadable, readable);
    await eventually(() => expect(handled.at(-1)).toBe('readable'));
    expect(messages()).toEqual([expect.stringContaining('is unreadable and stays in the queue')]);
  });

  it('does not prevent an item that has its name later', async () => {
    const queue = open();
    await client.create(path);
    const unreadable = await createUnreadable();
    const { handled, errors } = collect(queue);
    await eventually(() => expect(errors).toHaveLength(1));
    await client.delete(unreadable);
    await queue.put('other');
    await eventually(() => expect(handled).toEqual(['other']));
    await client.create(unreadable, readable);
    await eventually(() => expect(handled).toEqual(['other', 'readable']));
  });

  it('stays in the queue if its serializer returns a promise, and the handler is not called', async () => {
    const deserialize = () => Promise.reject(new Error('late')) as never;
    const queue = open({ serializer: { serialize: String, deserialize } });
    const { handled, errors } = collect(queue);
    await queue.put('item');
    await eventually(() => expect(errors).toHaveLength(1));
    expect(errors[0]!.message).toContain('serializer.deserialize returned a promise');
    expect(handled).toEqual([]);
    expect(await queue.size()).toBe(1);
  });
});

describe('an ACL that denies', () => {
  it('the deletion of items makes the consumer wait, report it once, and repeat only the deletion', async () => {
    const queue = open();
    for (const item of numbers(3)) await queue.put(item);
    await allow(path, 'rwca');
    const remove = vi.spyOn(await client.session(), 'delete');
    const { handled, messages } = collect(queue, { retryDelay: 20 });
    await eventually(() => expect(remove.mock.calls.length).toBeGreaterThan(3));
    expect(handled).toEqual(['item 0']);
    await allow(path, 'rwcda');
    await isEmpty();
    expect(handled).toEqual(numbers(3));
    expect(messages()).toEqual([
      `a consumer of the queue ${path} waits, because the ACL of ${path} denies the creation or deletion of children: correct the ACL`,
    ]);
  });

  it('the creation of locks makes the consumer wait, and report it once', async () => {
    const queue = open();
    for (const item of numbers(3)) await queue.put(item);
    await client.ensureContainers(`${path}-locks`);
    await allow(`${path}-locks`, 'rwda');
    const create = vi.spyOn(await client.session(), 'create');
    const { handled, errors } = collect(queue, { retryDelay: 20 });
    await eventually(() => expect(create.mock.calls.length).toBeGreaterThan(3));
    expect(handled).toEqual([]);
    await allow(`${path}-locks`, 'rwcda');
    await isEmpty();
    expect(handled).toEqual(numbers(3));
    expect(errors).toMatchObject([{ code: 'NOT_AUTHORIZED', key: `${path}-locks` }]);
  });

  it('the deletion of items does not delay the close of the consumer, which releases the lock', async () => {
    const queue = open();
    await queue.put('one');
    await allow(path, 'rwca');
    const { handled, errors, consumer } = collect(queue, { retryDelay: 60_000 });
    await eventually(() => expect(errors).toHaveLength(1));
    await consumer.close();
    expect(handled).toEqual(['one']);
    expect(errors[1]!.message).toContain('could not be finished: ShuttingDownError');
    expect(await locks()).toEqual([]);
  });

  it('the change of an item doubles the delay of the consumer', async () => {
    const queue = open();
    await allow(`${path}/${await queue.put('one')}`, 'rcda');
    const times: number[] = [];
    collect(queue, { retryDelay: 50 }, () => {
      times.push(performance.now());
      throw new Error('no');
    });
    await eventually(() => expect(times).toHaveLength(4));
    checkDelays(times, 50);
  });
});

it('an item with a child is handled once and deleted later, and other items are handled', async () => {
  const queue = open();
  const child = `${path}/${await queue.put('parent')}/child`;
  await client.create(child);
  await queue.put('other');
  const { handled, messages } = collect(queue, { retryDelay: 20 });
  await eventually(async () => expect(await queue.size()).toBe(1));
  expect(handled).toEqual(['parent', 'other']);
  expect(messages()).toEqual([
    expect.stringContaining('was handled and cannot be deleted: NodeError'),
  ]);
  await client.delete(child);
  await isEmpty();
  expect(handled).toEqual(['parent', 'other']);
});

describe('a bounded queue', () => {
  it('makes a put wait until a consumer has made space', async () => {
    const queue = open({ maxItems: 2 });
    await queue.put('one');
    await queue.put('two');
    await expect(queue.put('three', { wait: 0 })).rejects.toThrow(QueueFullError);
    await expect(queue.put('three', { wait: 500 })).rejects.toMatchObject({ code: 'QUEUE_FULL' });
    const cancel = new AbortController();
    const cancelled = queue.put('three', { signal: cancel.signal });
    cancel.abort(new Error('enough'));
    await expect(cancelled).rejects.toMatchObject({ code: 'CANCELLED' });
    const waiting = queue.put('three');
    const { handled } = collect(queue);
    await waiting;
    await eventually(() => expect(handled).toEqual(['one', 'two', 'three']));
  });

  it('rejects a put that waits for space when it is closed', async () => {
    const queue = open({ maxItems: 1 });
    await queue.put('one');
    const waiting = expect(queue.put('two')).rejects.toMatchObject({ code: 'SHUTTING_DOWN' });
    await queue.close();
    await waiting;
    await expect(queue.put('three')).rejects.toMatchObject({ code: 'SHUTTING_DOWN' });
    expect(await queue.size()).toBe(1);
  });
});

describe('a queue with znodes of another recipe', () => {
  it('reports them once, does not count them, and handles its items', async () => {
    const errors: Error[] = [];
    const onError = (error: Error) => void errors.push(error);
    const queue = open({ maxItems: 1, onError });
    await client.ensureContainers(path);
    // As the queue of kazoo names its items.
    const foreign = await client.create(`${path}/entry-100-`, 'x', {
      mode: 'persistent-sequential',
    });
    await client.create(`${path}/other`);
    expect(await queue.size()).toBe(0);
    await queue.put('one', { wait: 0 });
    expect(await queue.size()).toBe(1);
    await expect(queue.put('two', { wait: 0 })).rejects.toThrow(QueueFullError);
    const { handled } = collect(queue);
    await queue.put('two');
    await eventually(() => expect(handled).toEqual(['one', 'two']));
    const reported = errors.splice(0);
    expect(reported).toEqual([expect.any(RecipeConflictError)]);
    expect(reported[0]!.message).toMatch(
      new RegExp(
        `^2 znode\\(s\\) of the queue ${path} are no items, for example (entry-100-|other)`,
      ),
    );
    // Those that appear later are reported again.
    await client.delete(foreign);
    await client.delete(`${path}/other`);
    await queue.size();
    await client.create(foreign);
    await eventually(() => expect(errors).toHaveLength(1));
  });
});

describe('the close of a consumer', () => {
  it('waits for the running handler and takes no other item', async () => {
    const queue = open();
    await queue.putMulti(['one']);
    await queue.put('two');
    const gate = new Gate();
    let finished = false;
    const { handled, consumer } = collect(queue, {}, async () => {
      await gate.pass();
      finished = true;
    });
    await gate.reached;
    const closed = consumer.close();
    gate.open();
    await closed;
    expect(finished).toBe(true);
    expect(handled).toEqual(['one']);
    expect(await queue.size()).toBe(1);
  });

  it('aborts a handler that takes longer than stopTimeout, frees its item, and reports the lost lock', async () => {
    const queue = open();
    await queue.put('one');
    const started = new Gate();
    let reason: unknown;
    const options = { stopTimeout: 20 };
    const { messages, consumer } = collect(queue, options, async (_, { signal }) => {
      void started.pass();
      await sleep(60_000, undefined, { signal }).finally(() => (reason = signal.reason));
    });
    await started.reached;
    await consumer.close();
    const cause = { code: 'SHUTTING_DOWN' };
    await eventually(() => expect(reason).toMatchObject({ code: 'LEASE_LOST', cause }));
    expect(await locks()).toEqual([]);
    const { handled } = collect(queue);
    await eventually(() => expect(handled).toEqual(['one']));
    expect(messages().at(-1)).toContain('lost its lock in attempt 1');
    expect(messages().join()).not.toContain('failed');
  });

  it('is started by its signal, and leaves no watch', async () => {
    const before = await server.watchCount();
    const queue = open();
    await queue.put('one');
    const stop = new AbortController();
    const { handled, consumer } = collect(queue, { signal: stop.signal });
    await eventually(() => expect(handled).toEqual(['one']));
    stop.abort();
    await consumer.close();
    await queue.put('two');
    expect(handled).toEqual(['one']);
    await client.close();
    await eventually(async () => expect(await server.watchCount()).toBeLessThanOrEqual(before));
  });
});

it('the options of a queue are checked', async () => {
  const queue = new DistributedQueue(client, path);
  const make = (options: object) => () => new DistributedQueue(client, path, options);
  const consume = (options: object) => () => queue.consume(() => {}, options);
  const bad: [string, () => unknown][] = [
    ['path', () => new DistributedQueue(client, '/')],
    ['lockPath', make({ lockPath: 'x' })],
    ['lockPath', make({ lockPath: path })],
    ['lockPath', make({ lockPath: '/' })],
    ['lockPath', make({ lockPath: `${path}/a/b` })],
    ['maxItems', make({ maxItems: 0 })],
    ['maxItem', make({ maxItem: 1 })],
    ['prioritized', make({ prioritized: 1 })],
    ['serializer', make({ serializer: 1 })],
    ['concurrency', consume({ concurrency: 0 })],
    ['errorMode', consume({ errorMode: 'REQUEUE' })],
    ['retryDelay', consume({ retryDelay: Number.NaN })],
    ['stopTimeout', consume({ stopTimeout: -1 })],
    ['signal', consume({ signal: {} })],
    ['onError', consume({ onError: 1 })],
    ['handler', () => queue.consume(1 as never)],
  ];
  for (const [option, call] of bad) {
    expect(call, option).toThrow(expect.objectContaining({ code: 'BAD_OPTION', option }));
  }
  const prioritized = new DistributedQueue(client, path, { prioritized: true });
  const serialize = () => Promise.reject(new Error('late')) as never;
  const asynchronous = open({ serializer: { serialize, deserialize: String } });
  const holes: Buffer[] = [];
  holes.length = 2;
  const rejected: [string, Promise<unknown>][] = [
    ['item', queue.put('text' as never)],
    ['item', queue.put(Buffer.alloc(1_050_000))],
    ['items', queue.putMulti([])],
    ['item', queue.putMulti(holes)],
    ['items', queue.putMulti([Buffer.alloc(600_000), Buffer.alloc(600_000)])],
    ['wait', queue.put(Buffer.alloc(1), { wait: -1 })],
    ['priority', prioritized.put(Buffer.alloc(1), { priority: 0.5 })],
    ['priority', prioritized.put(Buffer.alloc(1), { priority: 2 ** 31 })],
    ['priority', queue.put(Buffer.alloc(1), { priority: 1 })],
    ...[undefined, 1n, Number.NaN].map((item): [string, Promise<unknown>] => [
      'item',
      open<unknown>().put(item),
    ]),
    ['the result of serializer.serialize', asynchronous.put('text')],
  ];
  for (const [option, put] of rejected) {
    await expect(put, option).rejects.toMatchObject({ code: 'BAD_OPTION', option });
  }
  expect(await client.exists(path)).toBeUndefined();
});
