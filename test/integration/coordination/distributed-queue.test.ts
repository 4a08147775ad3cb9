import { setTimeout as sleep } from 'node:timers/promises';
import {
  type ConsumeOptions,
  DistributedPriorityQueue,
  DistributedQueue,
  JSON_SERIALIZER,
  type QueueHandler,
  QueueFullError,
  QueueItemError,
  type QueueOptions,
} from 'nestjs-zookeeper/coordination/recipes';
import { afterEach, describe, expect, it } from 'vitest';
import type { Acl, ZkClient } from '../../../lib/client/index.js';
import { encodeItems } from '../../../lib/coordination/recipes/internals/queue-items.js';
import { expire, useClients } from '../../support/clients.js';
import { eventually } from '../../support/eventually.js';
import { useServer } from '../../support/servers.js';

const server = useServer();
const connect = useClients(server);

// Runs before the clients are closed.
const opened: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const queue of opened.splice(0)) await queue.close();
});

/** Returns a queue of JSON values, which is closed after the test. */
function open<T = string>(client: ZkClient, path: string, options: QueueOptions<T> = {}) {
  const serializer = JSON_SERIALIZER as QueueOptions<T>['serializer'];
  const queue = new DistributedQueue<T>(client, path, { serializer, ...options });
  opened.push(queue);
  return queue;
}

/** Consumes the items of a queue into an array. */
function collect<T>(queue: DistributedQueue<T>, options: ConsumeOptions = {}) {
  const handled: T[] = [];
  const errors: Error[] = [];
  const consumer = queue.consume((item) => void handled.push(item), {
    onError: (error) => void errors.push(error),
    ...options,
  });
  return { handled, errors, consumer };
}

/** Returns a promise, and the function that resolves it. */
function gate<T = void>() {
  let open!: (value: T) => void;
  const opened = new Promise<T>((resolve) => (open = resolve));
  return { opened, open };
}

const numbers = (count: number) => Array.from({ length: count }, (_, index) => `item ${index}`);

describe('a distributed queue', () => {
  it('passes the items to one consumer in the order of their puts, and deletes them', async () => {
    const client = await connect();
    const path = server.path('order');
    const queue = open(client, path);
    for (const item of numbers(20)) await queue.put(item);
    expect(await queue.size()).toBe(20);
    const { handled } = collect(queue);
    await eventually(async () => expect(await queue.size()).toBe(0));
    await queue.put('last');
    await eventually(() => expect(handled).toEqual([...numbers(20), 'last']));
    await queue.close();
    expect((await client.children(path)).children).toEqual([]);
    expect((await client.children(`${path}-locks`)).children).toEqual([]);
  });

  it('passes each item to exactly one of several consumers', async () => {
    const path = server.path('consumers');
    const clients = await Promise.all([connect(), connect(), connect()]);
    const handled: string[] = [];
    const errors: Error[] = [];
    const queues = clients.map((client) => open(client, path));
    for (const queue of queues) {
      const handler = async (item: string) => {
        await sleep(1);
        handled.push(item);
      };
      queue.consume(handler, { concurrency: 3, onError: (error) => void errors.push(error) });
    }
    await Promise.all(numbers(120).map((item, index) => queues[index % 3]!.put(item)));
    await eventually(async () => expect(await queues[0]!.size()).toBe(0));
    await Promise.all(queues.map((queue) => queue.close()));
    expect(handled.toSorted()).toEqual(numbers(120).toSorted());
    expect(errors).toEqual([]);
  });

  it('handles as many items at the same time as concurrency allows', async () => {
    const queue = open(await connect(), server.path('concurrency'));
    let running = 0;
    let most = 0;
    const { opened, open: finish } = gate();
    await Promise.all(numbers(8).map((item) => queue.put(item)));
    queue.consume(
      async () => {
        most = Math.max(most, ++running);
        await opened;
        running--;
      },
      { concurrency: 3 },
    );
    await eventually(() => expect(running).toBe(3));
    finish();
    await eventually(async () => expect(await queue.size()).toBe(0));
    expect(most).toBe(3);
  });

  it('passes the items of one put to one consumer, one after the other', async () => {
    const queue = open(await connect(), server.path('multi'));
    const { handled } = collect(queue, { concurrency: 4 });
    await queue.putMulti(['one', 'two', 'three']);
    await eventually(() => expect(handled).toEqual(['one', 'two', 'three']));
  });

  it('keeps the bytes of items that have no serializer', async () => {
    const client = await connect();
    const queue = new DistributedQueue(client, server.path('bytes'));
    const handled: Buffer[] = [];
    queue.consume((item) => void handled.push(item));
    await queue.putMulti([Buffer.from([0, 255]), Buffer.alloc(0)]);
    await eventually(() => expect(handled).toEqual([Buffer.from([0, 255]), Buffer.alloc(0)]));
    await queue.close();
  });
});

describe('a priority queue', () => {
  it('passes items with a lower number first, and equal ones in order', async () => {
    const client = await connect();
    const queue = new DistributedPriorityQueue<unknown>(client, server.path('priority'), {
      serializer: JSON_SERIALIZER,
    });
    opened.push(queue);
    for (const priority of [7, -1, 0, 2 ** 31 - 1, 7, -(2 ** 31)]) {
      await queue.put({ priority, size: await queue.size() }, priority);
    }
    const handled: unknown[] = [];
    queue.consume((item) => void handled.push(item));
    await eventually(() =>
      expect(handled).toEqual([
        { priority: -(2 ** 31), size: 5 },
        { priority: -1, size: 1 },
        { priority: 0, size: 2 },
        { priority: 7, size: 0 },
        { priority: 7, size: 4 },
        { priority: 2 ** 31 - 1, size: 3 },
      ]),
    );
  });

  it('passes an urgent item before the items that were listed already', async () => {
    const queue = new DistributedPriorityQueue<unknown>(await connect(), server.path('urgent'), {
      serializer: JSON_SERIALIZER,
    });
    opened.push(queue);
    for (const item of ['first', 'second', 'third']) await queue.put(item, 5);
    const handled: unknown[] = [];
    queue.consume(async (item) => {
      handled.push(item);
      if (item === 'first') await queue.put('urgent', 1);
    });
    await eventually(() => expect(handled).toEqual(['first', 'urgent', 'second', 'third']));
  });
});

describe('the lock of an item', () => {
  it('makes another consumer handle the item after the session of the first is lost', async () => {
    const path = server.path('crash');
    const [one, two] = await Promise.all([connect(), connect()]);
    const first = open(one, path);
    const second = open(two, path);
    const { opened: lost, open: onLost } = gate<unknown>();
    const { opened: started, open: onStarted } = gate();
    const errors: Error[] = [];
    first.consume(
      async (_, { signal }) => {
        onStarted();
        await new Promise((resolve) => signal.addEventListener('abort', resolve));
        onLost(signal.reason);
      },
      { onError: (error) => void errors.push(error) },
    );
    await second.put('an item');
    await started;
    const { handled } = collect(second);
    expect(handled).toEqual([]);
    const closing = first.close();
    await expire(one, server);
    await eventually(() => expect(handled).toEqual(['an item']));
    expect(await lost).toMatchObject({ code: 'LEASE_LOST' });
    await closing;
    expect(errors).toHaveLength(1);
    expect(errors[0]).toBeInstanceOf(QueueItemError);
    expect(errors[0]!.message).toContain('lost its lock in attempt 1');
  });

  it('reports only the lost lock of a handler that rejects because of its signal', async () => {
    const client = await connect();
    const path = server.path('rejects-by-signal');
    const queue = open(client, path);
    await queue.put('an item');
    const started = gate();
    const errors: Error[] = [];
    const consumer = queue.consume(
      (_, { signal }) => {
        started.open();
        return sleep(60_000, undefined, { signal });
      },
      { stopTimeout: 20, onError: (error) => void errors.push(error) },
    );
    await started.opened;
    await consumer.close();
    await eventually(() => expect(errors.at(-1)!.message).toContain('lost its lock in attempt 1'));
    expect(errors.filter(({ message }) => message.includes('failed'))).toEqual([]);
  });

  it('aborts the signal of the handler when another client deletes it', async () => {
    const client = await connect();
    const path = server.path('deleted-lock');
    const queue = open(client, path);
    const reasons: unknown[] = [];
    const errors: Error[] = [];
    const handler: QueueHandler<string> = async (_, { signal, attempt, name }) => {
      if (reasons.length > 0 || attempt > 1) return;
      await client.delete(`${path}-locks/${name}`);
      await new Promise((resolve) => signal.addEventListener('abort', resolve));
      reasons.push(signal.reason);
    };
    queue.consume(handler, { onError: (error) => void errors.push(error) });
    await queue.put('an item');
    await eventually(async () => expect(await queue.size()).toBe(0));
    expect(reasons).toMatchObject([{ code: 'LEASE_LOST' }]);
    expect(errors.map(({ message }) => message)).toEqual([
      expect.stringContaining('a client deleted its znode'),
    ]);
  });

  it('is respected if another program has it', async () => {
    const client = await connect();
    const path = server.path('foreign-lock');
    const queue = open(client, path);
    const name = await queue.put('locked');
    await client.ensureContainers(`${path}-locks`);
    await client.create(`${path}-locks/${name}`, 'java', { mode: 'ephemeral' });
    const { handled } = collect(queue);
    await queue.put('free');
    await eventually(() => expect(handled).toEqual(['free']));
    expect(await queue.size()).toBe(1);
    await client.delete(`${path}-locks/${name}`);
    await eventually(() => expect(handled).toEqual(['free', 'locked']));
  });
});

describe('an item whose handler throws', () => {
  it('is handled again after a delay, while other items are handled', async () => {
    const queue = open(await connect(), server.path('requeue'));
    const attempts: [string, number][] = [];
    const errors: QueueItemError[] = [];
    await queue.put('bad');
    await queue.put('good');
    const handler: QueueHandler<string> = (item, { attempt }) => {
      attempts.push([item, attempt]);
      if (item === 'bad' && attempt < 3) throw new Error(`no ${attempt}`);
    };
    queue.consume(handler, { retryDelay: 20, onError: (e) => void errors.push(e as never) });
    await eventually(async () => expect(await queue.size()).toBe(0));
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
    const path = server.path('attempts');
    const [one, two] = await Promise.all([connect(), connect()]);
    const failing = open(one, path);
    const failed = new Set<string>();
    const fail: QueueHandler<string> = (item) => {
      failed.add(item);
      throw new Error('the database is down');
    };
    const consumer = failing.consume(fail, { retryDelay: 60_000, onError: () => {} });
    for (const item of numbers(3)) await failing.put(item);
    await eventually(() => expect(failed.size).toBe(3));
    await consumer.close();
    await failing.put('good');
    const handled: [string, number][] = [];
    const handler: QueueHandler<string> = (item, { attempt }) => void handled.push([item, attempt]);
    open(two, path).consume(handler, { retryDelay: 100 });
    await eventually(() => expect(handled).toHaveLength(4));
    expect(handled[0]).toEqual(['good', 1]);
    expect(handled.slice(1).toSorted()).toEqual(numbers(3).map((item) => [item, 2]));
    await eventually(async () => expect(await failing.size()).toBe(0));
  });

  it('is handled by the consumer whose handler does not throw, although the other one fails at once', async () => {
    const path = server.path('other');
    const [one, two] = await Promise.all([connect(), connect()]);
    const failing = open(one, path);
    const failed = gate();
    const fail: QueueHandler<string> = () => {
      failed.open();
      throw new Error('the database is down');
    };
    failing.consume(fail, { retryDelay: 100, onError: () => {} });
    await failing.put('an item');
    await failed.opened;
    const { handled } = collect(open(two, path), { retryDelay: 100 });
    await eventually(() => expect(handled).toEqual(['an item']));
  });

  it('makes all consumers together wait for the delay, which doubles', async () => {
    const path = server.path('back-off');
    const clients = await Promise.all([connect(), connect(), connect()]);
    const times: number[] = [];
    const handler: QueueHandler<string> = (_, { attempt }) => {
      expect(attempt).toBe(times.push(performance.now()));
      if (attempt < 4) throw new Error('no');
    };
    const queues = clients.map((client) => open(client, path));
    for (const queue of [...queues, ...queues]) {
      queue.consume(handler, { retryDelay: 50, onError: () => {} });
    }
    await queues[0]!.put('an item');
    await eventually(async () => expect(await queues[0]!.size()).toBe(0));
    const delays = times.slice(1).map((time, index) => time - times[index]!);
    // A timer of Node may end a millisecond early.
    for (const [index, delay] of delays.entries()) expect(delay).toBeGreaterThan(48 * 2 ** index);
    expect(delays).toHaveLength(3);
  });

  it("is deleted with errorMode 'delete', after the other items of its put were handled", async () => {
    const queue = open(await connect(), server.path('delete'));
    const handled: string[] = [];
    const errors: Error[] = [];
    queue.consume(
      (item) => {
        handled.push(item);
        if (item === 'bad') throw new Error('no');
      },
      { errorMode: 'delete', onError: (error) => void errors.push(error) },
    );
    await queue.putMulti(['bad', 'good']);
    await eventually(async () => expect(await queue.size()).toBe(0));
    expect(handled).toEqual(['bad', 'good']);
    expect(errors).toHaveLength(1);
  });

  it("is deleted with errorMode 'delete', although the thrown value cannot be converted to a string", async () => {
    const queue = open(await connect(), server.path('no-text'));
    const errors: Error[] = [];
    const handler = () => {
      throw Object.create(null);
    };
    queue.consume(handler, { errorMode: 'delete', onError: (error) => void errors.push(error) });
    await queue.put('item');
    await eventually(async () => expect(await queue.size()).toBe(0));
    expect(errors.map(({ message }) => message)).toEqual([
      expect.stringContaining('failed in attempt 1 (error mode delete): [object Object]'),
    ]);
  });

  it('stays in the queue if its data is unreadable, and does not prevent the others', async () => {
    const client = await connect();
    const path = server.path('unreadable');
    const queue = open(client, path);
    await queue.put('first');
    await client.create(`${path}/queue-`, 'no items', { mode: 'persistent-sequential' });
    await queue.put('last');
    const { handled, errors } = collect(queue);
    await eventually(() => expect(handled).toEqual(['first', 'last']));
    await queue.put('later');
    await eventually(() => expect(handled).toEqual(['first', 'last', 'later']));
    expect(errors.map(({ message }) => message)).toEqual([
      expect.stringContaining('is unreadable and stays in the queue'),
    ]);
    expect((await client.children(path)).children).toEqual(['queue-0000000001']);
  });

  it('stays in the queue if its serializer returns a promise, and the handler is not called', async () => {
    const deserialize = () => Promise.reject(new Error('late')) as never;
    const serializer = { serialize: String, deserialize };
    const queue = open(await connect(), server.path('promise'), { serializer });
    const { handled, errors } = collect(queue);
    await queue.put('item');
    await eventually(() => expect(errors).toHaveLength(1));
    expect(errors[0]!.message).toContain('serializer.deserialize returned a promise');
    expect(handled).toEqual([]);
    expect(await queue.size()).toBe(1);
  });

  it('is handled after its unreadable data was corrected, and is reported once', async () => {
    const client = await connect();
    const path = server.path('corrected');
    const queue = open(client, path);
    await client.create(path);
    const item = await client.create(`${path}/queue-`, '', { mode: 'persistent-sequential' });
    const { handled, errors } = collect(queue, { retryDelay: 20 });
    await eventually(() => expect(errors).toHaveLength(1));
    const items = [Buffer.from('"readable"')];
    await client.set(item, encodeItems({ items, id: Buffer.alloc(16), attempts: 0 }));
    await eventually(() => expect(handled).toEqual(['readable']));
    expect(errors).toHaveLength(1);
  });

  it('does not prevent an item that has its name later', async () => {
    const client = await connect();
    const path = server.path('same-name');
    const queue = open(client, path);
    await client.create(path);
    const unreadable = await client.create(`${path}/queue-`, '', { mode: 'persistent-sequential' });
    const { handled, errors } = collect(queue);
    await eventually(() => expect(errors).toHaveLength(1));
    await client.delete(unreadable);
    await queue.put('other');
    await eventually(() => expect(handled).toEqual(['other']));
    const items = [Buffer.from('"readable"')];
    await client.create(unreadable, encodeItems({ items, id: Buffer.alloc(16), attempts: 0 }));
    await eventually(() => expect(handled).toEqual(['other', 'readable']));
  });
});

describe('an ACL that denies', () => {
  const acl = (permissions: string): Acl[] => [{ scheme: 'world', id: 'anyone', permissions }];

  it('the deletion of items makes the consumer wait, report it once, and repeat only the deletion', async () => {
    const client = await connect();
    const path = server.path('undeletable');
    const queue = open(client, path);
    for (const item of numbers(3)) await queue.put(item);
    await client.setAcl(path, acl('rwca'));
    const { handled, errors } = collect(queue, { retryDelay: 20 });
    const { opened: repeated, open: onRepeated } = gate();
    const session = await client.session();
    const remove = session.delete.bind(session);
    let deletions = 0;
    session.delete = (...args) => {
      if (++deletions === 4) onRepeated();
      return remove(...args);
    };
    await repeated;
    expect(handled).toEqual(['item 0']);
    expect(errors.map(({ message }) => message)).toEqual([
      `a consumer of the queue ${path} waits, because the ACL of ${path} denies the creation or deletion of children: correct the ACL`,
    ]);
    await client.setAcl(path, acl('rwcda'));
    await eventually(async () => expect(await queue.size()).toBe(0));
    expect(handled).toEqual(numbers(3));
    expect(errors).toHaveLength(1);
  });

  it('the creation of locks makes the consumer wait, and report it once', async () => {
    const client = await connect();
    const path = server.path('unlockable');
    const queue = open(client, path);
    for (const item of numbers(3)) await queue.put(item);
    await client.ensureContainers(`${path}-locks`);
    await client.setAcl(`${path}-locks`, acl('rwda'));
    const { opened: repeated, open: onRepeated } = gate();
    const session = await client.session();
    const create = session.create.bind(session);
    let creates = 0;
    session.create = (...args) => {
      if (++creates === 4) onRepeated();
      return create(...args);
    };
    const { handled, errors } = collect(queue, { retryDelay: 20 });
    await repeated;
    expect(handled).toEqual([]);
    expect(errors).toMatchObject([{ code: 'NOT_AUTHORIZED', key: `${path}-locks` }]);
    await client.setAcl(`${path}-locks`, acl('rwcda'));
    await eventually(() => expect(handled).toEqual(numbers(3)));
    expect(errors).toHaveLength(1);
  });

  it('the deletion of items does not delay the close of the consumer, which releases the lock', async () => {
    const client = await connect();
    const path = server.path('undeletable-close');
    const queue = open(client, path);
    await queue.put('one');
    await client.setAcl(path, acl('rwca'));
    const { handled, errors, consumer } = collect(queue, { retryDelay: 60_000 });
    await eventually(() => expect(errors).toHaveLength(1));
    await consumer.close();
    expect(handled).toEqual(['one']);
    expect(errors[1]!.message).toContain('could not be finished: ShuttingDownError');
    expect((await client.children(`${path}-locks`)).children).toEqual([]);
  });

  it('the change of an item doubles the delay of the consumer', async () => {
    const client = await connect();
    const path = server.path('unchangeable');
    const queue = open(client, path);
    const name = await queue.put('one');
    await client.setAcl(`${path}/${name}`, acl('rcda'));
    const times: number[] = [];
    const handler = () => {
      times.push(performance.now());
      throw new Error('no');
    };
    queue.consume(handler, { retryDelay: 50, onError: () => {} });
    await eventually(() => expect(times).toHaveLength(4));
    const delays = times.slice(1).map((time, index) => time - times[index]!);
    for (const [index, delay] of delays.entries()) expect(delay).toBeGreaterThan(48 * 2 ** index);
  });
});

it('an item with a child is handled once and deleted later, and other items are handled', async () => {
  const client = await connect();
  const path = server.path('child');
  const queue = open(client, path);
  const child = `${path}/${await queue.put('parent')}/child`;
  await client.create(child);
  await queue.put('other');
  const { handled, errors } = collect(queue, { retryDelay: 20 });
  await eventually(async () => expect(await queue.size()).toBe(1));
  expect(handled).toEqual(['parent', 'other']);
  expect(errors.map(({ message }) => message)).toEqual([
    expect.stringContaining('was handled and cannot be deleted: NodeError'),
  ]);
  await client.delete(child);
  await eventually(async () => expect(await queue.size()).toBe(0));
  expect(handled).toEqual(['parent', 'other']);
});

it('an item whose lock is a persistent znode is reported once', async () => {
  const client = await connect();
  const path = server.path('persistent-lock');
  const queue = open(client, path);
  const lock = `${path}-locks/${await queue.put('blocked')}`;
  await client.ensureContainers(`${path}-locks`);
  await client.create(lock);
  const { handled, errors } = collect(queue);
  await eventually(() => expect(errors).toHaveLength(1));
  await queue.put('other');
  await eventually(() => expect(handled).toEqual(['other']));
  await client.delete(lock);
  await eventually(() => expect(handled).toEqual(['other', 'blocked']));
  expect(errors.map(({ message }) => message)).toEqual([
    expect.stringContaining(`is not handled: its lock ${lock} is a persistent znode: delete it`),
  ]);
});

describe('a bounded queue', () => {
  it('makes a put wait until a consumer has made space', async () => {
    const queue = open(await connect(), server.path('bounded'), { maxItems: 2 });
    await queue.put('one');
    await queue.put('two');
    await expect(queue.put('three', { wait: 0 })).rejects.toThrow(QueueFullError);
    await expect(queue.put('three', { wait: 20 })).rejects.toMatchObject({ code: 'QUEUE_FULL' });
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
    const queue = open(await connect(), server.path('closing'), { maxItems: 1 });
    await queue.put('one');
    const waiting = expect(queue.put('two')).rejects.toMatchObject({ code: 'SHUTTING_DOWN' });
    await queue.close();
    await waiting;
    await expect(queue.put('three')).rejects.toMatchObject({ code: 'SHUTTING_DOWN' });
    expect(await queue.size()).toBe(1);
  });
});

describe('the close of a consumer', () => {
  it('waits for the running handler and takes no other item', async () => {
    const queue = open(await connect(), server.path('close'));
    await queue.put('one');
    await queue.put('two');
    const started = gate();
    const finish = gate();
    const handled: string[] = [];
    const consumer = queue.consume(async (item) => {
      started.open();
      await finish.opened;
      handled.push(item);
    });
    await started.opened;
    const closed = consumer.close();
    finish.open();
    await closed;
    expect(handled).toEqual(['one']);
    expect(await queue.size()).toBe(1);
  });

  it('aborts a handler that takes longer than stopTimeout, and frees its item', async () => {
    const client = await connect();
    const path = server.path('close-timeout');
    const queue = open(client, path);
    await queue.put('one');
    const started = gate();
    const reasons: unknown[] = [];
    const consumer = queue.consume(
      async (_, { signal }) => {
        started.open();
        await new Promise((resolve) => signal.addEventListener('abort', resolve));
        reasons.push(signal.reason);
      },
      { stopTimeout: 20, onError: () => {} },
    );
    await started.opened;
    await consumer.close();
    expect(reasons).toMatchObject([{ code: 'LEASE_LOST', cause: { code: 'SHUTTING_DOWN' } }]);
    expect((await client.children(`${path}-locks`)).children).toEqual([]);
    const { handled } = collect(queue);
    await eventually(() => expect(handled).toEqual(['one']));
  });

  it('is started by its signal, and leaves no watch', async () => {
    const client = await connect();
    const before = await server.watchCount();
    const queue = open(client, server.path('signal'));
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

describe('the options of a queue', () => {
  it('are checked', async () => {
    const client = await connect();
    const path = server.path('options');
    const queue = new DistributedQueue(client, path);
    const bad: [string, () => unknown][] = [
      ['path', () => new DistributedQueue(client, '/')],
      ['lockPath', () => new DistributedQueue(client, path, { lockPath: 'x' })],
      ['lockPath', () => new DistributedQueue(client, path, { lockPath: path })],
      ['lockPath', () => new DistributedQueue(client, path, { lockPath: '/' })],
      ['lockPath', () => new DistributedQueue(client, path, { lockPath: `${path}/a/b` })],
      ['maxItems', () => new DistributedQueue(client, path, { maxItems: 0 })],
      ['maxItem', () => new DistributedQueue(client, path, { maxItem: 1 } as never)],
      ['serializer', () => new DistributedQueue(client, path, { serializer: 1 as never })],
      ['concurrency', () => queue.consume(() => {}, { concurrency: 0 })],
      ['errorMode', () => queue.consume(() => {}, { errorMode: 'REQUEUE' as never })],
      ['retryDelay', () => queue.consume(() => {}, { retryDelay: Number.NaN })],
      ['stopTimeout', () => queue.consume(() => {}, { stopTimeout: -1 })],
      ['signal', () => queue.consume(() => {}, { signal: {} as never })],
      ['onError', () => queue.consume(() => {}, { onError: 1 as never })],
      ['handler', () => queue.consume(1 as never)],
    ];
    for (const [option, call] of bad) {
      expect(call, option).toThrow(expect.objectContaining({ code: 'BAD_OPTION', option }));
    }
    const priority = new DistributedPriorityQueue(client, path);
    const serialize = () => Promise.reject(new Error('late')) as never;
    const serializer = { serialize, deserialize: String };
    const asynchronous = open<string>(client, path, { serializer });
    const holes: Buffer[] = [];
    holes.length = 2;
    const rejected: [string, Promise<unknown>][] = [
      ['item', queue.put('text' as never)],
      ['item', queue.put(Buffer.alloc(1_050_000))],
      ['items', queue.putMulti([])],
      ['item', queue.putMulti(holes)],
      ['items', queue.putMulti([Buffer.alloc(600_000), Buffer.alloc(600_000)])],
      ['wait', queue.put(Buffer.alloc(1), { wait: -1 })],
      ['priority', priority.put(Buffer.alloc(1), 0.5)],
      ['priority', priority.put(Buffer.alloc(1), 2 ** 31)],
      ['item', open<unknown>(client, path).put(undefined)],
      ['item', open<unknown>(client, path).put(1n)],
      ['item', open<unknown>(client, path).put(Number.NaN)],
      ['the result of serializer.serialize', asynchronous.put('text')],
    ];
    for (const [option, put] of rejected) {
      await expect(put, option).rejects.toMatchObject({ code: 'BAD_OPTION', option });
    }
    expect(await client.exists(path)).toBeUndefined();
  });
});
