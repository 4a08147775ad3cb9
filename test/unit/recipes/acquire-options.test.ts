import {
  BadOptionError,
  LeaderLatch,
  type Lock,
  MultiLock,
  Mutex,
  NonReentrantMutex,
  ReadLock,
  ReadWriteLock,
  Semaphore,
  WriteLock,
  ZkClient,
} from 'nestjs-zookeeper/recipes';
import { describe, expect, it } from 'vitest';

// The client is not connected: the options are checked before anything else.
const client = new ZkClient({ connectString: '127.0.0.1:1' });
const mutex = new Mutex(client, '/mutex');
const semaphore = new Semaphore(client, '/semaphore', { permits: 2 });
const run = async () => {};

describe('the options of an acquire', () => {
  it.each<[string, (options: object) => Promise<unknown>]>([
    ['withLock()', (options) => mutex.withLock(run, options)],
    ['acquire()', (options) => mutex.acquire(options)],
    ['tryAcquire()', (options) => mutex.tryAcquire(options)],
    ['enter()', (options) => mutex.enter(options)],
    ['a read lock', (options) => new ReadWriteLock(client, '/pages').read.acquire(options)],
    ['a semaphore', (options) => semaphore.acquire(options)],
    ['acquireEach()', (options) => semaphore.acquireEach(options)],
    ['a multi-lock', (options) => new MultiLock([mutex]).acquire(options)],
    ['a latch', (options) => new LeaderLatch(client, '/latch').await(options)],
  ])('%s rejects an unknown option by its name, and an invalid wait', async (_name, acquire) => {
    const refused = acquire({ wiat: 1 });
    await expect(refused).rejects.toThrow(BadOptionError);
    await expect(refused).rejects.toThrow(/unknown option wiat in options: did you mean wait/);
    for (const wait of [-1, Number.NaN, '5', null]) {
      await expect(acquire({ wait })).rejects.toMatchObject({
        code: 'BAD_OPTION',
        option: 'wait',
      });
    }
  });

  it('exclude those of another recipe', async () => {
    const options: object = { count: 2 };
    await expect(mutex.acquire(options)).rejects.toThrow(/unknown option count in options/);
    await expect(semaphore.acquire(options)).rejects.toThrow('connect() has not succeeded yet');
  });
});

describe('a lock', () => {
  it.each(['', 'orders', '/orders/', '/a//b', '/nul\0'])('rejects the path %j', (path) => {
    expect(() => new Mutex(client, path)).toThrow(BadOptionError);
  });

  it('rejects options that it does not have', () => {
    for (const Recipe of [Mutex, ReadLock, WriteLock, ReadWriteLock, NonReentrantMutex]) {
      const make = () => new Recipe(client, '/orders', { rentrant: false } as never);
      expect(make).toThrow(expect.objectContaining({ code: 'BAD_OPTION', option: 'rentrant' }));
    }
    const make = () => new NonReentrantMutex(client, '/orders', { reentrant: true } as never);
    expect(make).toThrow(expect.objectContaining({ code: 'BAD_OPTION', option: 'reentrant' }));
  });
});

describe('a semaphore', () => {
  it.each([0, 2.5, Infinity, '2', undefined])('rejects a total of %s', (permits) => {
    const make = () => new Semaphore(client, '/bad', { permits: permits as number });
    expect(make).toThrow(BadOptionError);
  });

  it('names the option that a misspelt one may mean', () => {
    const make = () => new Semaphore(client, '/bad', { permits: 3, permit: 5 } as never);
    expect(make).toThrow(expect.objectContaining({ code: 'BAD_OPTION', option: 'permit' }));
    expect(make).toThrow('did you mean permits?');
  });
});

describe('a multi-lock', () => {
  it('rejects an empty list', () => {
    expect(() => new MultiLock([])).toThrow(BadOptionError);
    expect(() => new MultiLock(undefined as unknown as Lock[])).toThrow(BadOptionError);
  });

  it('rejects two locks on one path, whatever their recipes', () => {
    const { read, write } = new ReadWriteLock(client, '/twice');
    const twice = () => new Mutex(client, '/twice');
    for (const list of [
      [twice(), twice()],
      [read, write],
      [twice(), read],
    ]) {
      expect(() => new MultiLock(list)).toThrow(BadOptionError);
      expect(() => new MultiLock(list)).toThrow('/twice');
    }
  });
});
