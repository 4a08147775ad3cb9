import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { beforeEach, describe, expect, it } from 'vitest';
import { DistributedQueue, type QueueSerializer } from 'nestjs-zookeeper/coordination';
import { type ZkClient } from 'nestjs-zookeeper/recipes';
import { useClients } from '../support/clients.js';
import { eventually } from '../support/eventually.js';
import { untilNodes } from '../support/recipe-nodes.js';
import { useServer } from '../support/servers.js';
import { Curator, useCurator } from './curator.js';

/** The number of items that each side puts. */
const ITEMS = 100;
/** Milliseconds. */
const SESSION_TIMEOUT = 2_000;

const CONSUMER = fileURLToPath(new URL('../support/queue-consumer.mjs', import.meta.url));

const WORDS: QueueSerializer<string> = {
  serialize: (item) => item,
  deserialize: (bytes) => bytes.toString(),
};

describe('a queue beside Apache Curator', () => {
  const server = useServer();
  const connect = useClients(server);
  const curator = useCurator(server);
  let client: ZkClient;
  let path: string;

  beforeEach(async () => {
    client = await connect();
    path = server.path('queue');
  });

  /** Puts words into the queue at `path` with the lock path `<path>-locks`. */
  const put = (method: 'put' | 'put-multi' | 'put-priority', ...words: (string | number)[]) =>
    curator.ask('queue', method, path, ...words);
  /** Starts a consumer whose handler takes `delay` ms. For the item `last` it sends an event and never ends. */
  const consume = (kind: 'plain' | 'priority' = 'plain', delay = 0, last = 'none', by = curator) =>
    by.ask('queue', 'consume', path, kind, delay, last);
  /** Returns the items that the consumer has handled, or has begun to handle. */
  const theirs = () => curator.ask('queue', 'handled', path);
  const closeTheirs = () => curator.ask('queue', 'close', path);
  const open = (with_ = client) => new DistributedQueue(with_, path, { serializer: WORDS });
  const words = (of: string) => Array.from({ length: ITEMS }, (_, index) => `${of}-${index}`);
  const isEmpty = () => eventually(async () => expect(await open().size()).toBe(0));

  it('passes the items of Curator to our consumer in order, and ours to that of Curator', async () => {
    const queue = open();
    await put('put', 'one', 'two');
    await queue.put('three');
    await put('put-multi', 'four', 'five');
    await queue.putMulti(['six', 'seven']);
    const handled: string[] = [];
    const consumer = queue.consume((item) => void handled.push(item));
    await isEmpty();
    expect(handled).toEqual(['one', 'two', 'three', 'four', 'five', 'six', 'seven']);
    await consumer.close();
    await queue.put('eight');
    await queue.putMulti(['nine', 'ten']);
    await put('put', 'eleven');
    await consume();
    await eventually(async () =>
      expect(await theirs()).toEqual(['eight', 'nine', 'ten', 'eleven']),
    );
    await closeTheirs();
  });

  it('has the same priorities on both sides', async () => {
    const queue = new DistributedQueue(client, path, { serializer: WORDS, prioritized: true });
    const putAll = async () => {
      await put('put-priority', 5, 'java-5');
      await queue.put('ours-5', { priority: 5 });
      await queue.put('ours-2', { priority: 2 });
      await put('put-priority', -1, 'java--1');
      await queue.put('ours--7', { priority: -7 });
      await put('put-priority', 2 ** 31 - 1, 'java-max');
      await queue.put('ours-min', { priority: -(2 ** 31) });
    };
    const order = ['ours-min', 'ours--7', 'java--1', 'ours-2', 'java-5', 'ours-5', 'java-max'];
    await putAll();
    const handled: string[] = [];
    const consumer = queue.consume((item) => void handled.push(item));
    await isEmpty();
    expect(handled).toEqual(order);
    await consumer.close();
    await putAll();
    await consume('priority');
    await eventually(async () => expect(await theirs()).toEqual(order));
    await closeTheirs();
  });

  it.each(['plain', 'priority'] as const)(
    'passes each item to one consumer while both sides put and consume (%s)',
    async (kind) => {
      const queue = open();
      const byPriority = new DistributedQueue(client, path, {
        serializer: WORDS,
        prioritized: true,
      });
      const handled: string[] = [];
      const errors: Error[] = [];
      const consumer = (kind === 'plain' ? queue : byPriority).consume(
        async (item) => {
          handled.push(item);
          // However fast either side is, both handle items: ours has its first item and waits for theirs.
          await eventually(async () => expect(await theirs()).not.toEqual([]));
        },
        { concurrency: 2, onError: (error) => void errors.push(error) },
      );
      const putOurs = async (item: string, index: number) =>
        kind === 'plain' ? queue.put(item) : byPriority.put(item, { priority: index % 3 });
      const [first, ...others] = words('ours');
      await putOurs(first!, 0);
      await eventually(() => expect(handled).toEqual([first]));
      await consume(kind, 2);
      await Promise.all([
        ...others.map(putOurs),
        kind === 'plain' ? put('put', ...words('java')) : put('put-priority', 1, ...words('java')),
      ]);
      await isEmpty();
      await consumer.close();
      // closeQueue() interrupts the thread of Curator, which may then leave its lock until its session ends.
      await untilNodes(client, `${path}-locks`, 0);
      await closeTheirs();
      const byCurator = await theirs();
      expect([...handled, ...byCurator].toSorted()).toEqual(
        [...words('ours'), ...words('java')].toSorted(),
      );
      expect(errors).toEqual([]);
    },
  );

  it('gives the item of a Curator process that was killed to our consumer', async () => {
    const other = new Curator();
    await other.start(server.connectString, SESSION_TIMEOUT);
    await consume('plain', 0, 'item', other);
    const queue = open();
    await queue.put('item');
    await other.event('handling item');
    const handled: string[] = [];
    const consumer = queue.consume((item) => void handled.push(item));
    await queue.put('later');
    await eventually(() => expect(handled).toEqual(['later']));
    await other[Symbol.asyncDispose]();
    await eventually(() => expect(handled).toEqual(['later', 'item']));
    await consumer.close();
  });

  it('gives the item of one of our processes that was killed to the consumer of Curator', async () => {
    const queue = open();
    await queue.put('item');
    const child = spawn(process.execPath, [
      CONSUMER,
      server.connectString,
      path,
      String(SESSION_TIMEOUT),
    ]);
    await once(child.stdout, 'data');
    const exited = once(child, 'exit');
    child.kill('SIGKILL');
    await exited;
    await consume();
    const locks = async () => (await client.children(`${path}-locks`)).children;
    await eventually(async () => expect(await locks()).toEqual([]));
    // Curator lists a queue only when it changes.
    await queue.put('later');
    await isEmpty();
    expect(await theirs()).toEqual(expect.arrayContaining(['item', 'later']));
    await closeTheirs();
  });
});
