import { describe, expect } from 'vitest';
import {
  BadOptionError,
  ConnectionError,
  LockTimeoutError,
  Mutex,
  RecipeConflictError,
  ShuttingDownError,
  type ZkClient,
} from 'nestjs-zookeeper/recipes';
import { CounterOverflowError, DistributedAtomicLong } from 'nestjs-zookeeper/coordination';
import type { DistributedAtomicLongOptions } from '../../../lib/coordination/recipes/distributed-atomic-long.js';
import { useClients } from '../../support/clients.js';
import { eventually } from '../../support/eventually.js';
import { nodesUnder } from '../../support/recipe-nodes.js';
import { useServer } from '../../support/servers.js';
import { beforeEach, it } from '../../support/virtual-time.js';

const MAX = 2n ** 63n - 1n;
const MIN = -(2n ** 63n);

const server = useServer();
const connect = useClients(server);

let client: ZkClient;
let path: string;
let value: DistributedAtomicLong;
beforeEach(async () => {
  client = await connect();
  path = server.path('counter');
  value = new DistributedAtomicLong(client, path);
});

const bytes = async () => (await client.get(path)).data.toString('hex');

describe('a counter', () => {
  it('is 0 until its first change, which creates it with 8 bytes, big-endian', async () => {
    expect(await value.get()).toBe(0n);
    expect(await client.exists(path)).toBeUndefined();
    expect(await value.add(258n)).toEqual({ preValue: 0n, postValue: 258n });
    expect(await bytes()).toBe('0000000000000102');
    expect(await value.subtract(259n)).toEqual({ preValue: 258n, postValue: -1n });
    expect(await bytes()).toBe('ffffffffffffffff');
    expect(await value.increment()).toEqual({ preValue: -1n, postValue: 0n });
    expect(await value.decrement()).toEqual({ preValue: 0n, postValue: -1n });
    expect(await value.get()).toBe(-1n);
  });

  it('creates its missing parents, and is initialized once', async () => {
    const [one, two, three] = ['a/b', 'c/d', 'e/f'].map(
      (name) => new DistributedAtomicLong(client, `${path}/${name}`),
    );
    expect(await one!.increment()).toEqual({ preValue: 0n, postValue: 1n });
    expect(await two!.initialize(7n)).toBe(true);
    expect(await two!.initialize(6n)).toBe(false);
    expect(await two!.get()).toBe(7n);
    await three!.forceSet(8n);
    expect(await three!.get()).toBe(8n);
  });

  it('compares and sets', async () => {
    const refused = { succeeded: false, preValue: 0n, postValue: 0n };
    expect(await value.compareAndSet(1n, 2n)).toEqual(refused);
    expect(await client.exists(path)).toBeUndefined();
    const set = { succeeded: true, preValue: 0n, postValue: 2n };
    expect(await value.compareAndSet(0n, 2n)).toEqual(set);
    expect(await value.compareAndSet(2n, 2n)).toMatchObject({ succeeded: true });
  });

  it('sets the value, also when it does not change', async () => {
    expect(await value.trySet(0n)).toEqual({ preValue: 0n, postValue: 0n });
    expect(await value.initialize(5n)).toBe(false);
    expect(await value.trySet(3n)).toEqual({ preValue: 0n, postValue: 3n });
    await client.set(path, 'not a counter');
    await value.forceSet(4n);
    expect(await value.get()).toBe(4n);
  });

  it('reads empty data as 0, as Curator does, and rejects data of another size', async () => {
    await client.create(path);
    expect(await value.get()).toBe(0n);
    expect(await value.increment()).toEqual({ preValue: 0n, postValue: 1n });
    await client.set(path, Buffer.alloc(4));
    await expect(value.get()).rejects.toThrow(RecipeConflictError);
    await expect(value.increment()).rejects.toThrow(`${path} is not a counter (8 bytes): 4 bytes`);
    await client.set(path, Buffer.alloc(16));
    await expect(value.increment()).rejects.toThrow(RecipeConflictError);
  });

  it('refuses a change that exceeds 64 bits, and only that one of the changes that share a write', async () => {
    await value.forceSet(MAX - 1n);
    const results = await Promise.allSettled([
      value.increment(),
      value.increment(),
      value.decrement(),
      value.add(MIN),
    ]);
    expect(
      results.map((result) => (result.status === 'fulfilled' ? result.value : 'refused')),
    ).toEqual([
      { preValue: MAX - 1n, postValue: MAX },
      'refused',
      { preValue: MAX, postValue: MAX - 1n },
      { preValue: MAX - 1n, postValue: -2n },
    ]);
    expect(results[1]).toMatchObject({ reason: expect.any(CounterOverflowError) });
    await value.forceSet(MIN);
    await expect(value.decrement()).rejects.toMatchObject({ code: 'COUNTER_OVERFLOW' });
    await expect(value.subtract(MIN)).resolves.toEqual({ preValue: MIN, postValue: 0n });
  });

  it('refuses values that are no bigint of 64 bits, and wrong options', async () => {
    for (const wrong of [1, '1', undefined, MAX + 1n, MIN - 1n] as bigint[]) {
      const calls = [
        value.add(wrong),
        value.subtract(wrong),
        value.trySet(wrong),
        value.forceSet(wrong),
        value.initialize(wrong),
        value.compareAndSet(wrong, 1n),
        value.compareAndSet(1n, wrong),
      ];
      for (const call of calls) await expect(call).rejects.toThrow(BadOptionError);
    }
    expect(await client.exists(path)).toBeUndefined();
    const create = (options: object) => () => new DistributedAtomicLong(client, path, options);
    expect(() => new DistributedAtomicLong(client, '/')).toThrow(BadOptionError);
    expect(create({ retries: 3 })).toThrow('retries');
    expect(create({ lockPath: path })).toThrow('lockPath must be another path');
    expect(create({ lockPath: 'x' })).toThrow('lockPath must be an absolute znode path');
    expect(create({ lockPath: '/' })).toThrow('lockPath must be a znode below the root');
    expect(create({ lockWait: -1 })).toThrow('lockWait must be 0 or more milliseconds');
    expect(create({ retry: { type: 'often' } })).toThrow('retry.type');
  });

  it('gives each caller of many its own value, in their order, with few writes', async () => {
    const all = await Promise.all(Array.from({ length: 500 }, () => value.increment()));
    expect(all.map(({ postValue }) => postValue)).toEqual(all.map((_, index) => BigInt(index + 1)));
    expect((await client.exists(path))!.version).toBeLessThan(10);
  });

  it('reports a lost reply only to the callers whose changes were sent', async () => {
    await value.initialize(0n);
    await value.increment();
    const { set, sync } = client;
    let later: Promise<unknown> | undefined;
    client.set = async () => {
      later = value.increment();
      Object.assign(client, { set });
      throw new ConnectionError('the reply was lost', { maybeApplied: true });
    };
    client.sync = async () => {
      Object.assign(client, { sync });
      throw new ConnectionError('not connected');
    };
    await expect(value.increment()).rejects.toMatchObject({ maybeApplied: true });
    expect(await later).toEqual({ preValue: 1n, postValue: 2n });
  });

  it('does not report a lost reply once the write of another client shows that its own was not applied', async () => {
    await value.initialize(0n);
    const [other, set] = [await connect(), client.set.bind(client)];
    let writes = 0;
    client.set = async (...args) => {
      if (++writes <= 2) await other.set(path, Buffer.alloc(8));
      if (writes === 1) throw new ConnectionError('the reply was lost', { maybeApplied: true });
      return set(...args);
    };
    expect(await value.increment()).toEqual({ preValue: 0n, postValue: 1n });
  });

  it('reports a lost reply to a read as a change that was not applied', async () => {
    client.get = () =>
      Promise.reject(new ConnectionError('the reply was lost', { maybeApplied: true }));
    await expect(value.increment()).rejects.toMatchObject({
      code: 'CONNECTION',
      maybeApplied: false,
    });
  });

  it('does not rely on a value from before the counter was deleted and created again', async () => {
    await value.add(100n);
    await client.delete(path);
    // With the same version as before.
    const again = new DistributedAtomicLong(client, path);
    await again.add(1n);
    expect(await value.increment()).toEqual({ preValue: 1n, postValue: 2n });
  });
});

describe('a counter under contention', () => {
  /** Makes another process write between each read and write of the counter. */
  async function disturbed(options: DistributedAtomicLongOptions) {
    const value = new DistributedAtomicLong(client, path, options);
    const other = await connect();
    const { get } = client;
    let writes = Infinity;
    client.get = async (znode) => {
      const read = await get.call(client, znode);
      if (znode === path && writes-- > 0) await other.set(path, Buffer.alloc(8));
      return read;
    };
    await value.initialize(0n);
    return { value, stopAfter: (count: number) => (writes = count) };
  }

  it('rejects when the retry policy gives up and there is no lock', async () => {
    const { value, stopAfter } = await disturbed({
      retry: { type: 'fixed', delay: 0, maxRetries: 2 },
    });
    await expect(value.increment()).rejects.toThrow(LockTimeoutError);
    await expect(value.increment()).rejects.toThrow('set lockPath');
    stopAfter(2);
    expect(await value.increment()).toEqual({ preValue: 0n, postValue: 1n });
  });

  it('continues as the holder of the lock, and releases it', async () => {
    const lockPath = server.path('lock');
    const { value, stopAfter } = await disturbed({ retry: { type: 'none' }, lockPath });
    const lock = new Mutex(await connect(), lockPath);
    const lease = await lock.acquire();
    stopAfter(1);
    const incremented = value.increment();
    await eventually(async () => expect(await lock.participants()).toHaveLength(2));
    expect(await value.get()).toBe(0n);
    await lease.release();
    expect(await incremented).toEqual({ preValue: 0n, postValue: 1n });
    expect(await nodesUnder(client, lockPath)).toEqual([]);
  });

  it('rejects when the lock is not granted in time, or the counter changes under it', async () => {
    const lockPath = server.path('lock');
    const retry = { type: 'none' } as const;
    const { value } = await disturbed({ retry, lockPath, lockWait: 2000 });
    await expect(value.increment()).rejects.toThrow('was not changed');
    const lease = await new Mutex(client, lockPath).acquire();
    const hasty = new DistributedAtomicLong(client, path, { retry, lockPath, lockWait: 10 });
    await expect(hasty.increment()).rejects.toThrow('was not granted within 10 ms');
    await lease.release();
    expect(await nodesUnder(client, lockPath)).toEqual([]);
  });

  it('ends its retries when the client is closed', async () => {
    const { value } = await disturbed({ retry: { type: 'forever', delay: 60_000 } });
    const incremented = expect(value.increment()).rejects.toThrow(ShuttingDownError);
    await eventually(async () => expect((await client.exists(path))!.version).toBe(1));
    await client.close();
    await incremented;
    await expect(value.get()).rejects.toThrow(ShuttingDownError);
  });
});
