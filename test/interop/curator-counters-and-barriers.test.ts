import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import {
  DistributedAtomicLong,
  type DistributedAtomicLongOptions,
  DistributedBarrier,
  DistributedDoubleBarrier,
  WaitTimeoutError,
  type ZkClient,
} from 'nestjs-zookeeper/coordination/recipes';
import { useClients } from '../support/clients.js';
import { eventually } from '../support/eventually.js';
import { useServer } from '../support/servers.js';
import { Curator } from './curator.js';

/** Increments by each of four callers of each side. */
const TIMES = 50;
/** Milliseconds: limits for what must happen, and for what must not. */
const LONG = 60_000;
const SHORT = 100;

const missing = Curator.missing();
if (missing) console.log(`Left out: the interop tests with Apache Curator (${missing}).`);

describe.skipIf(missing)('beside Apache Curator', () => {
  const server = useServer();
  const connect = useClients(server);
  let curator: Curator;
  let client: ZkClient;
  let path: string;

  beforeAll(async () => {
    curator = await Curator.start(server.connectString);
  });
  beforeEach(async () => {
    client = await connect();
    path = server.path('shared');
  });
  afterAll(async () => {
    await curator?.[Symbol.asyncDispose]();
  });

  const children = async (of: string) => (await client.children(of)).children;

  describe('a counter', () => {
    it('has the same value on both sides', async () => {
      const ours = new DistributedAtomicLong(client, path);
      expect(await curator.counter('get', path)).toMatchObject({ postValue: 0n });
      await client.create(path);
      expect(await curator.counter('get', path)).toMatchObject({ postValue: 0n });
      expect(await ours.get()).toBe(0n);
      await client.delete(path);
      expect(await ours.initialize(-5n)).toBe(true);
      expect(await curator.initializeCounter(path, 1n)).toBe(false);
      expect(await curator.counter('add', path, 2n ** 62n)).toEqual({
        succeeded: true,
        preValue: -5n,
        postValue: 2n ** 62n - 5n,
      });
      expect(await ours.subtract(2n ** 62n)).toEqual({ preValue: 2n ** 62n - 5n, postValue: -5n });
      expect(await curator.counter('compare-and-set', path, -5n, 6n)).toMatchObject({
        succeeded: true,
      });
      expect(await ours.compareAndSet(6n, 7n)).toMatchObject({ succeeded: true });
      expect(await curator.counter('compare-and-set', path, 6n, 8n)).toMatchObject({
        succeeded: false,
        preValue: 7n,
      });
      await ours.forceSet(-(2n ** 63n));
      expect(await curator.counter('get', path)).toMatchObject({ postValue: -(2n ** 63n) });
    });

    /** Four callers of each side increment at the same time. Checks that no value occurs twice. */
    async function contend(options: DistributedAtomicLongOptions): Promise<void> {
      const callers = await Promise.all(
        Array.from(
          { length: 4 },
          async () => new DistributedAtomicLong(await connect(), path, options),
        ),
      );
      const theirs = curator.increment(path, TIMES, options.lockPath);
      await eventually(async () => expect(await callers[0]!.get()).toBeGreaterThan(0n));
      const ours = await Promise.all(
        callers.map(async (counter) => {
          const values: bigint[] = [];
          while (values.length < TIMES) values.push((await counter.increment()).postValue);
          return values;
        }),
      );
      const values = [...ours.flat(), ...(await theirs)].toSorted((a, b) => Number(a - b));
      expect(values).toEqual(Array.from({ length: 8 * TIMES }, (_, index) => BigInt(index + 1)));
      expect(await callers[0]!.get()).toBe(BigInt(8 * TIMES));
    }

    it('counts exactly while both sides increment it', () =>
      contend({ retry: { type: 'fixed', delay: 2, maxRetries: 1000 } }));

    it('counts exactly while both sides increment it under the same lock', async () => {
      const lockPath = `${path}-lock`;
      const retry = { type: 'fixed', delay: 2, maxRetries: 5 } as const;
      await contend({ retry, lockPath, lockWait: LONG });
      // The server may have reaped the container of the lock.
      expect((await client.exists(lockPath))?.numChildren ?? 0).toBe(0);
    });

    it('waits for the lock that Curator holds', async () => {
      const lockPath = `${path}-lock`;
      const retry = () => undefined;
      const counter = new DistributedAtomicLong(client, path, { retry, lockPath, lockWait: SHORT });
      const { get } = client;
      let disturb = true;
      client.get = async (znode) => {
        const read = await get.call(client, znode);
        if (disturb) await curator.counter('add', path, 1n);
        return read;
      };
      await curator.initializeCounter(path, 0n);
      expect(await curator.acquire('holder', `mutex:${lockPath}`)).toBe(true);
      await expect(counter.increment()).rejects.toThrow(`lock "${lockPath}" was not granted`);
      await curator.release('holder');
      disturb = false;
      expect(await counter.increment()).toEqual({ preValue: 1n, postValue: 2n });
    });
  });

  describe('a barrier', () => {
    it('blocks both sides until either of them removes it', async () => {
      const ours = new DistributedBarrier(client, path);
      await ours.setBarrier();
      await curator.setBarrier(path);
      expect(await curator.waitOnBarrier(path, SHORT)).toBe(false);
      const both = [ours.waitOnBarrier(), curator.waitOnBarrier(path)];
      await curator.removeBarrier(path);
      expect(await Promise.all(both)).toEqual([undefined, true]);
      await curator.setBarrier(path);
      await expect(ours.waitOnBarrier({ wait: SHORT })).rejects.toThrow(WaitTimeoutError);
      const again = [ours.waitOnBarrier(), curator.waitOnBarrier(path)];
      await ours.removeBarrier();
      await Promise.all(again);
      expect(await client.exists(path)).toBeUndefined();
    });
  });

  describe('a double barrier', () => {
    it('lets members of both sides begin and end together, in each order', async () => {
      for (let round = 0; round < 6; round++) {
        const ours = await Promise.all(
          [0, 1].map(async () => new DistributedDoubleBarrier(await connect(), path, 4)),
        );
        const names = [`a${round}`, `b${round}`];
        for (const name of names) await curator.joinBarrier(name, path, 4);
        const enter = [
          ...ours.map((each) => () => each.enter({ wait: LONG })),
          ...names.map((name) => () => curator.enterBarrier(name)),
        ];
        const leave = [
          ...ours.map((each) => () => each.leave({ wait: LONG })),
          ...names.map((name) => () => curator.leaveBarrier(name)),
        ];
        await together(enter, round, async (started) => {
          await eventually(async () => {
            const present = (await client.exists(path)) ? await children(path) : [];
            expect(present.filter((name) => name !== 'ready')).toHaveLength(started);
          });
        });
        await together(leave, round + 1, () => Promise.resolve());
        // The server may have deleted the empty container.
        expect((await client.exists(path))?.numChildren ?? 0).toBe(0);
      }
    });

    /** Starts one call after the other, from the call `first` on. Checks that none ends before all have started. */
    async function together(
      calls: (() => Promise<unknown>)[],
      first: number,
      whenStarted: (count: number) => Promise<void>,
    ): Promise<void> {
      const running: Promise<unknown>[] = [];
      let over = 0;
      for (let i = 0; i < calls.length; i++) {
        expect(over).toBe(0);
        const call = calls[(first + i) % calls.length]!;
        running.push(call().then((result) => (over++, result)));
        if (i < calls.length - 1) await whenStarted(i + 1);
      }
      // Curator resolves to true, ours to undefined.
      expect(await Promise.all(running)).not.toContain(false);
    }

    it('lets the others leave when a leave times out on either side', async () => {
      const ours = new DistributedDoubleBarrier(client, path, 2);
      await curator.joinBarrier('slow', path, 2);
      await Promise.all([ours.enter(), curator.enterBarrier('slow')]);
      await expect(ours.leave({ wait: SHORT })).rejects.toThrow(WaitTimeoutError);
      expect(await curator.leaveBarrier('slow')).toBe(true);
      expect(await children(path)).toEqual([]);
    });
  });
});
