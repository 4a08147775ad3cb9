import { AsyncLocalStorage } from 'node:async_hooks';
import {
  type ConnectionState,
  LeaderLatch,
  LeaseLostError,
  LockBusyError,
  LockTimeoutError,
  MultiLock,
  Mutex,
  NonReentrantMutex,
  NotLeaderError,
  ReadWriteLock,
  Semaphore,
  WaitCancelledError,
  type ZkClient,
} from 'nestjs-zookeeper/recipes';
import { describe, expect } from 'vitest';
import { aborted, expire, useClients } from '../../support/clients.js';
import { failureOf, untilNothingLeft, untilNodes } from '../../support/recipe-nodes.js';
import { useServer } from '../../support/servers.js';
import { useChannels } from '../../support/diagnostics-channels.js';
import { beforeEach, it } from '../../support/virtual-time.js';

const server = useServer();
const connect = useClients(server);
const channels = useChannels();

let path: string;
let client: ZkClient;
let other: ZkClient;
beforeEach(async () => {
  path = server.path('diagnostics');
  [client, other] = await Promise.all([connect(), connect()]);
});

describe('the channels of waits and holds report', () => {
  it('a free lock, with its recipe and the time it was held', async () => {
    const waits = channels.messages('wait');
    const holds = channels.messages('hold');
    const events = channels.events();
    const mutex = new Mutex(client, server.path('free'), { key: 'free' });
    const lease = await mutex.acquire();
    await lease.release();
    expect(events).toEqual(['wait began', 'wait granted cold', 'hold began', 'hold released']);

    expect(waits.map(({ wait }) => wait)).toEqual([waits[0]!.wait, waits[0]!.wait]);
    expect(waits[0]!.wait.lock).toBe(mutex);
    expect(waits[1]).toMatchObject({ kind: 'cold', duration: expect.any(Number) });
    const [{ hold: held }, end] = holds as [(typeof holds)[0], (typeof holds)[0]];
    expect(held).toMatchObject({ kind: 'cold', fencingToken: lease.fencingToken });
    expect(held.lock).toBe(mutex);
    expect(end.hold).toBe(held);
    expect((end as { duration: number }).duration).toBeGreaterThanOrEqual(0);
  });

  it.each([
    ['handed over', 'handover', 'handed-over'],
    ['granted separately', 'strict', 'cold'],
  ] as const)('a lock that is %s with fairness %s', async (_how, fairness, kind) => {
    const mutex = new Mutex(await connect(), server.path('next'));
    const first = await mutex.acquire({ fairness });
    const events = channels.events();
    const second = mutex.acquire({ fairness });
    await first.release();
    await (await second).release();
    // The channel had no subscriber when the first was granted.
    expect(events).toEqual(['wait began', `wait granted ${kind}`, 'hold began', 'hold released']);
  });

  it('a lock that lingers', async () => {
    const mutex = new Mutex(await connect(), server.path('lingering'));
    await mutex.withLock(() => {}, { linger: 5_000 });
    const events = channels.events();
    for (let visit = 0; visit < 2; visit++) await mutex.withLock(() => {}, { linger: 5_000 });
    const visit = ['wait began', 'wait granted lingering', 'hold began', 'hold released'];
    expect(events).toEqual([...visit, ...visit]);
  });

  it('a re-entry', async () => {
    const mutex = new Mutex(await connect(), server.path('again'));
    const events = channels.events();
    await mutex.withLock(() => mutex.withLock(() => {}));
    expect(events).toEqual([
      'wait began',
      'wait granted cold',
      'hold began',
      'wait granted re-entered',
      'hold released',
    ]);
  });

  it('readers that share a znode, and a reader that takes it over while it lingers', async () => {
    const { read } = new ReadWriteLock(client, path);
    const waits = channels.messages('wait');
    const kinds = () => waits.flatMap((message) => ('kind' in message ? [message.kind] : []));
    const leases = await Promise.all([1, 2, 3].map(() => read.acquire({ linger: 5_000 })));
    expect(kinds()).toEqual(['cold', 'shared', 'shared']);
    leases.push(await read.acquire({ linger: 5_000 }));
    await Promise.all(leases.map((lease) => lease.release()));
    await read.withLock(() => {}, { linger: 5_000 });
    expect(kinds().slice(3)).toEqual(['shared', 'lingering']);
  });

  it('a downgrade', async () => {
    const lock = new ReadWriteLock(await connect(), server.path('downgrade'));
    const writing = await lock.write.acquire();
    const events = channels.events();
    const reading = await lock.downgrade(writing);
    await reading.release();
    expect(events).toEqual(['wait began', 'wait granted cold', 'hold began', 'hold released']);
  });

  it('each lock of a multi-lock', async () => {
    const holds = channels.messages('hold');
    const locks = ['a', 'b'].map((key) => new Mutex(client, server.path(key), { key }));
    await new MultiLock(locks).withLock(() => {});
    expect(holds.map(({ event, hold }) => `${event} ${hold.lock.key}`)).toEqual([
      'began a',
      'began b',
      'released b',
      'released a',
    ]);
  });

  it('permits: one wait for each request, one hold for each lease, and no internal lock', async () => {
    const semaphore = new Semaphore(client, path, { permits: 3 });
    const events = channels.events();
    await (await semaphore.tryAcquire())!.release();
    expect(events.splice(0)).toEqual([
      'wait began',
      'wait granted cold',
      'hold began',
      'hold released',
    ]);
    const leases = await semaphore.acquireEach({ count: 2 });
    expect(events).toEqual(['wait began', 'wait granted cold', 'hold began', 'hold began']);
    const waiting = semaphore.acquire({ count: 2 });
    expect(await semaphore.tryAcquire({ count: 2 })).toBeUndefined();
    await Promise.all(leases.map((lease) => lease.release()));
    await (await waiting).release();
    expect(events.slice(4)).toEqual([
      'wait began',
      'wait began',
      'wait busy',
      'hold released',
      'hold released',
      'wait granted cold',
      'hold began',
      'hold released',
    ]);
  });

  it('the rights that exclude each other at the path of each lock', async () => {
    const waits = channels.messages('wait');
    const { read, write } = new ReadWriteLock(client, server.path('recipe'));
    const locks = [
      new Mutex(client, server.path('recipe')),
      new NonReentrantMutex(client, server.path('recipe')),
      read,
      write,
    ];
    for (const lock of locks) await lock.withLock(() => {});
    const began = waits.filter(({ event }) => event === 'began');
    expect(began.map(({ wait }) => wait.lock.recipe)).toEqual([
      'mutex',
      'semaphore',
      'read',
      'write',
    ]);
  });

  it('a wait that ends by its timeout, its signal, or before it began', async () => {
    await using _held = await new Mutex(other, path).acquire();
    const mutex = new Mutex(client, path);
    const waits = channels.messages('wait');
    const events = channels.events();
    const cancelling = new AbortController();

    const late = await failureOf(mutex.acquire({ wait: 50 }));
    const cancelled = failureOf(mutex.acquire({ signal: cancelling.signal }));
    cancelling.abort();
    const busy = await failureOf(mutex.acquire({ wait: 0 }));
    expect(late).toBeInstanceOf(LockTimeoutError);
    expect(await cancelled).toBeInstanceOf(WaitCancelledError);
    expect(busy).toBeInstanceOf(LockBusyError);
    expect(events.toSorted()).toEqual([
      'wait began',
      'wait began',
      'wait began',
      'wait busy',
      'wait cancelled',
      'wait timed-out',
    ]);
    expect(events.slice(0, 2)).toEqual(['wait began', 'wait timed-out']);
    const ends = waits.filter(({ event }) => event !== 'began');
    expect(ends[0]).toMatchObject({ error: late });
    expect(Math.abs((ends[0] as { duration: number }).duration - 50)).toBeLessThan(2);
    expect(new Set(ends.map(({ wait }) => wait)).size).toBe(3);
  });

  it('a wait that fails', async () => {
    await using _held = await new Mutex(client, path).acquire();
    const waits = channels.messages('wait');
    const error = await failureOf(new ReadWriteLock(client, path).read.acquire());
    expect(waits).toMatchObject([{ event: 'began' }, { event: 'failed', error }]);
  });

  it.each(['session', 'holdAtMost'])('a hold that is lost by its %s, once', async (by) => {
    const mutex = new Mutex(client, server.path('lost'));
    const holds = channels.messages('hold');
    const lease = await mutex.acquire(by === 'holdAtMost' ? { holdAtMost: 20 } : {});
    if (by === 'session') await expire(client, server);
    await aborted(lease.signal);
    await lease.release();
    expect(holds.map(({ event }) => event)).toEqual(['began', 'lost']);
    const { reason } = holds[1] as { reason: unknown };
    expect(reason).toBe(lease.signal.reason);
    expect(reason).toBeInstanceOf(LeaseLostError);
  });

  it('everything in the call chain of the caller', async () => {
    const mutex = new Mutex(await connect(), server.path('context'));
    const caller = new AsyncLocalStorage<string>();
    const lines: string[] = [];
    channels.listen('wait', ({ event }) => lines.push(`${event} by ${caller.getStore()}`));
    channels.listen('hold', ({ event }) => lines.push(`${event} by ${caller.getStore()}`));
    const first = await caller.run('first', () => mutex.acquire());
    const second = caller.run('second', () => mutex.acquire());
    await caller.run('third', () => first.release());
    await second;
    expect(lines).toEqual([
      'began by first',
      'granted by first',
      'began by first',
      'began by second',
      'released by third',
      'granted by second',
      'began by second',
    ]);
  });
});

describe('a channel', () => {
  it('is unaffected by a subscriber that comes late or leaves', async () => {
    const mutex = new Mutex(client, path);
    const lease = await mutex.acquire();
    const waiting = mutex.acquire();
    const events = channels.events();
    await lease.release();
    await (await waiting).release();
    expect(events).toEqual([]);
    await untilNothingLeft(server, client, path);
  });
});

describe('the channel of connections', () => {
  it('reports each state of each client', async () => {
    const messages = channels.messages('connection');
    [client, other] = await Promise.all([connect(), connect()]);
    const { id } = await client.session();
    await expire(client, server);
    const states = () => messages.filter((one) => one.client === client).map(({ state }) => state);
    await expect.poll(states).toContain('LOST' satisfies ConnectionState);
    await expect.poll(() => states().at(-1)).toBe('CONNECTED');
    await client.close();
    expect(states()[0]).toBe('CONNECTED');
    expect(states().at(-1)).toBe('CLOSED');
    const lost = messages.find(({ state }) => state === 'LOST');
    expect(lost).toMatchObject({ sessionId: id, reason: expect.any(Error) });
    expect(messages.filter((one) => one.client === other)).toMatchObject([{ state: 'CONNECTED' }]);
  });
});

describe('the channel of leaders', () => {
  it('reports elections, resignations and losses', async () => {
    const messages = channels.messages('leader');
    const latch = new LeaderLatch(client, path, { id: 'me', key: 'job' });
    latch.start();
    const term = await latch.await();
    expect(messages).toEqual([{ event: 'elected', candidate: latch, term }]);
    await latch.resign();
    expect(messages[1]).toMatchObject({ event: 'resigned', term });
    await latch.await();
    await expire(client, server);
    await expect.poll(() => messages.map(({ event }) => event)).toContain('demoted');
    const demoted = messages.find(({ event }) => event === 'demoted') as { reason: Error };
    expect(demoted.reason).toBeInstanceOf(NotLeaderError);
    expect(demoted.reason.cause).toBeInstanceOf(LeaseLostError);
    await latch.await();
    await latch.close('silent');
    expect(messages.map(({ event }) => event)).toEqual([
      'elected',
      'resigned',
      'elected',
      'demoted',
      'elected',
      'resigned',
    ]);
    await untilNodes(client, path, 0);
  });
});
