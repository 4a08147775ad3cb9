import { describe, expect, vi } from 'vitest';
import {
  BadOptionError,
  LeaseLostError,
  LockBusyError,
  LockTimeoutError,
  Mutex,
  ReadWriteLock,
  SelfDeadlockError,
  WaitCancelledError,
  type ZkClient,
} from 'nestjs-zookeeper/recipes';
import { Session } from '../../../lib/client/session.js';
import { aborted, expire, useClients, useLinks } from '../../support/clients.js';
import {
  failureOf,
  nodesUnder,
  untilNothingLeft,
  observed,
  untilNodes,
} from '../../support/recipe-nodes.js';
import { isSimulated } from '../../support/environment.js';
import { serverHas, useServer } from '../../support/servers.js';
import { afterEach, beforeEach, it } from '../../support/virtual-time.js';

const server = useServer();
const connect = useClients(server);
const newLink = useLinks(server);

let path: string;
let client: ZkClient;
let other: ZkClient;
beforeEach(async () => {
  path = server.path('read-write-lock');
  [client, other] = await Promise.all([connect(), connect()]);
});
/** Every test leaves neither znodes nor watches. */
afterEach(async () => untilNothingLeft(server, await connect(), path));

describe('ReadWriteLock', () => {
  it('admits readers of several clients and several readers of one client at once, and no writer', async () => {
    const [one, two] = await Promise.all([connect(), connect()]);
    const leases = [
      await new ReadWriteLock(one, path).read.acquire({ wait: 0 }),
      await new ReadWriteLock(one, path).read.acquire({ wait: 0 }),
      await new ReadWriteLock(two, path).read.acquire({ wait: 0 }),
    ];
    expect(leases.every(({ held }) => held)).toBe(true);
    const { write } = new ReadWriteLock(two, path);
    await expect(write.acquire({ wait: 0 })).rejects.toThrow(LockBusyError);
    await Promise.all(leases.map((lease) => lease.release()));
    const writing = await write.acquire({ wait: 0 });
    for (const { fencingToken } of leases)
      expect(writing.fencingToken).toBeGreaterThan(fencingToken);
    await writing.release();
  });

  it('refuses a reader within the write lock whose signal has aborted', async () => {
    const { read, write } = new ReadWriteLock(client, path);
    await write.withLock(async () => {
      const acquired = read.withLock(() => 'read', { signal: AbortSignal.abort() });
      await expect(acquired).rejects.toThrow(WaitCancelledError);
    });
  });

  it('lets no reader overtake a waiting writer, and admits readers when that writer has given up', async () => {
    const [reader, writer, late] = await Promise.all([connect(), connect(), connect()]);
    const reading = await new ReadWriteLock(reader, path).read.acquire();
    const controller = new AbortController();
    const writing = new ReadWriteLock(writer, path).write.acquire({ signal: controller.signal });
    await untilNodes(reader, path, 2);
    const { read } = new ReadWriteLock(late, path);
    await expect(read.acquire({ wait: 0 })).rejects.toThrow(LockBusyError);
    const next = read.acquire();
    await untilNodes(reader, path, 3);
    controller.abort();
    await expect(writing).rejects.toThrow(WaitCancelledError);
    await Promise.all([(await next).release(), reading.release()]);
  });

  it('names its nodes as Curator does', async () => {
    const { read, write } = new ReadWriteLock(client, path);
    const uuid = '[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}';
    await write.withLock(async () => {
      expect(await nodesUnder(client, path)).toEqual([
        expect.stringMatching(new RegExp(`^_c_${uuid}-__WRIT__0000000000$`)),
      ]);
    });
    await read.withLock(async () => {
      expect(await nodesUnder(client, path)).toEqual([
        expect.stringMatching(new RegExp(`^_c_${uuid}-__READ__\\d{10}$`)),
      ]);
    });
  });
});

describe.runIf(serverHas.tokensWithoutWrite)('many waiters', () => {
  it('set one watch each, and a release notifies one writer only', async () => {
    const clients = await Promise.all(Array.from({ length: 5 }, () => connect()));
    const [holder, ...others] = clients;
    const held = await new ReadWriteLock(holder!, path).write.acquire();
    // The watch of the holder on its own node.
    await expect.poll(() => server.watchCount()).toBe(1);
    const waiting: Promise<{ release(): Promise<void> }>[] = [];
    for (const client of others) {
      waiting.push(new ReadWriteLock(client, path).write.acquire());
      await untilNodes(holder!, path, waiting.length + 1);
    }
    await expect.poll(() => server.watchCount()).toBe(1 + others.length);
    const listings = vi.spyOn(Session.prototype, 'children');
    await held.release();
    const next = await waiting.shift()!;
    expect(listings).toHaveBeenCalledTimes(1);
    listings.mockRestore();
    await next.release();
    for (const waiter of waiting) await (await waiter).release();
  });

  it('that read watch the last writer before them, and other readers do not notify them', async () => {
    const [writer, impatient, ...readers] = await Promise.all(
      Array.from({ length: 5 }, () => connect()),
    );
    const held = await new ReadWriteLock(writer!, path).write.acquire();
    const controller = new AbortController();
    const leaving = new ReadWriteLock(impatient!, path).read.acquire({
      signal: controller.signal,
    });
    await untilNodes(writer!, path, 2);
    const waiting = readers.map((client) => new ReadWriteLock(client, path).read.acquire());
    await untilNodes(writer!, path, 2 + readers.length);
    await expect.poll(() => server.watchCount()).toBe(2 + readers.length);
    const listings = vi.spyOn(Session.prototype, 'children');
    controller.abort();
    await expect(leaving).rejects.toThrow(WaitCancelledError);
    await Promise.all(readers.map((client) => client.sync(path)));
    expect(listings).toHaveBeenCalledTimes(0);
    listings.mockRestore();
    await held.release();
    await Promise.all((await Promise.all(waiting)).map((lease) => lease.release()));
  });
});

describe('a call chain that holds a ReadWriteLock', () => {
  it('re-enters the read lock, even while a writer waits', async () => {
    const { read } = new ReadWriteLock(client, path);
    let writing!: Promise<void>;
    await read.withLock(async (outer) => {
      writing = new ReadWriteLock(other, path).write.withLock(() => undefined);
      await untilNodes(client, path, 2);
      await read.withLock(async (inner) => {
        expect(inner.fencingToken).toBe(outer.fencingToken);
        expect(await nodesUnder(client, path)).toHaveLength(2);
      });
      expect(outer.held).toBe(true);
    });
    await writing;
  });

  it('re-enters the write lock, and acquires the read lock inside by a read node with the number of its write node', async () => {
    // Persistent, because a container may be reaped in between and would restart its counter.
    await client.create(path);
    const { read, write } = new ReadWriteLock(client, path);
    await read.withLock(() => undefined);
    await write.withLock(async () => {
      await read.withLock(async () => {
        const names = await nodesUnder(client, path);
        const numbers = names.map((name) => name.replace(/^.*__(READ|WRIT)__/, '$1 '));
        expect(numbers.sort()).toEqual(['READ 0000000001', 'WRIT 0000000001']);
        await read.withLock(async () => expect(await nodesUnder(client, path)).toHaveLength(2));
      });
      await write.withLock(async () => expect(await nodesUnder(client, path)).toHaveLength(1));
    });
  });

  it('keeps the read lock after it releases the write lock, with no writer in between', async () => {
    const [client, other, third] = await Promise.all([connect(), connect(), connect()]);
    const { read, write } = new ReadWriteLock(client, path);
    const writing = await write.enter();
    const reading = await writing.run(() => read.enter());
    const next = observed(new ReadWriteLock(other, path).write.acquire());
    await untilNodes(client, path, 3);
    await writing.release();
    await untilNodes(client, path, 2);
    await other.sync(path);
    expect(reading.lease.held).toBe(true);
    expect(next.settled).toBe(false);
    await expect(new ReadWriteLock(third, path).write.acquire({ wait: 0 })).rejects.toThrow(
      LockBusyError,
    );
    await reading.release();
    await (await next.promise).release();
  });

  it('gets an error that explains why a reader cannot acquire the write lock', async () => {
    const { read, write } = new ReadWriteLock(client, path, { key: 'gold' });
    await read.withLock(async () => {
      for (const attempt of [write.acquire(), write.withLock(() => 'never'), write.tryAcquire()]) {
        const error = await failureOf(attempt);
        expect(error).toBeInstanceOf(SelfDeadlockError);
        expect(error).toMatchObject({
          key: 'gold',
          message: expect.stringContaining('release the read lock first'),
        });
      }
      expect(await nodesUnder(client, path)).toHaveLength(1);
    });
    // The chain of a released reader counts as one that holds nothing.
    const reading = await read.enter();
    await reading.release();
    await reading.run(() => write.withLock(() => undefined, { wait: 0 }));
  });

  it('gets an error from acquire(), which would wait for its own chain', async () => {
    const { read, write } = new ReadWriteLock(client, path);
    await write.withLock(() => expect(write.acquire()).rejects.toThrow(SelfDeadlockError));
    await read.withLock(() => expect(read.acquire()).rejects.toThrow(SelfDeadlockError));
    const strict = new ReadWriteLock(client, path, { reentrant: false });
    await strict.read.withLock(() =>
      expect(strict.read.withLock(() => 'never')).rejects.toThrow(SelfDeadlockError),
    );
  });
});

describe('downgrade()', () => {
  it('turns a write lease into a read lease, and admits waiting readers', async () => {
    const lock = new ReadWriteLock(client, path, { key: 'gold' });
    const writing = await lock.write.acquire();
    const waiting = new ReadWriteLock(other, path).read.acquire();
    await untilNodes(client, path, 2);
    const reading = await lock.downgrade(writing);
    expect(reading).toMatchObject({ key: 'gold', path, held: true });
    const beside = await waiting;
    expect([reading.held, beside.held, writing.held]).toEqual([true, true, false]);
    const read = expect.stringContaining('__READ__');
    expect(await nodesUnder(client, path)).toEqual([read, read]);
    await Promise.all([reading.release(), beside.release()]);
  });

  it('rejects a lease that is not a write lease on its path', async () => {
    const [path, elsewhere] = [server.path('not-a-write'), server.path('elsewhere')];
    const lock = new ReadWriteLock(client, path);
    const leases = [
      await lock.read.acquire(),
      await new ReadWriteLock(client, elsewhere).write.acquire(),
      await new Mutex(client, server.path('mutex')).acquire(),
    ];
    for (const lease of leases) {
      await expect(lock.downgrade(lease)).rejects.toThrow(BadOptionError);
      expect(lease.held).toBe(true);
      await lease.release();
    }
    await untilNothingLeft(server, client, path, elsewhere);
  });

  // The znode is watched 50 ms after the grant, which a real server may exceed.
  it.runIf(isSimulated)(
    'rejects a lease whose znode is gone, before the notification',
    async () => {
      const lock = new ReadWriteLock(client, path);
      const writing = await lock.write.acquire();
      await other.delete(`${path}/${(await nodesUnder(other, path))[0]}`);
      expect(writing.held).toBe(true);
      await expect(lock.downgrade(writing)).rejects.toThrow(LeaseLostError);
      await writing.release();
    },
  );

  it('rejects a lease that was released or lost, and leaves nothing behind', async () => {
    const lock = new ReadWriteLock(client, path);
    const released = await lock.write.acquire();
    await released.release();
    await expect(lock.downgrade(released)).rejects.toThrow(LeaseLostError);
    const lost = await lock.write.acquire();
    await expire(client, server);
    await aborted(lost.signal);
    await expect(lock.downgrade(lost)).rejects.toThrow(LeaseLostError);
  });
});

describe('when a session ends', () => {
  it('the read lock inside of the write lock is acquired within its wait, also without a reply', async () => {
    const link = await newLink();
    const linked = await connect({ connectString: link.connectString });
    const { read, write } = new ReadWriteLock(linked, path);
    await write.withLock(async () => {
      await link.holdAll();
      await expect(read.acquire({ wait: 50 })).rejects.toThrow(LockTimeoutError);
      await expect(read.acquire({ signal: AbortSignal.timeout(50) })).rejects.toThrow(
        WaitCancelledError,
      );
      await link.resume();
    });
  });

  it('no caller can acquire the read lock inside the lost write lock', async () => {
    const { read, write } = new ReadWriteLock(client, path);
    await write.withLock(async (lease) => {
      await expire(client, server);
      await aborted(lease.signal);
      await expect(read.withLock(() => 'inside')).rejects.toThrow(LeaseLostError);
      await expect(write.withLock(() => 'inside')).rejects.toThrow(LeaseLostError);
    });
    await write.withLock(() => undefined, { wait: 60_000 });
  });
});
