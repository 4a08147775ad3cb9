import { hostname } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect } from 'vitest';
import {
  BadOptionError,
  type HolderDetails,
  Mutex,
  ReadWriteLock,
  Semaphore,
  SharedCount,
  type ZkClient,
} from 'nestjs-zookeeper/recipes';
import { useClients } from '../../support/clients.js';
import { nodesUnder, untilNodes } from '../../support/recipe-nodes.js';
import { useServer } from '../../support/servers.js';
import { beforeEach, it } from '../../support/virtual-time.js';

const server = useServer();
const connect = useClients(server);

let path: string;
let client: ZkClient;
let other: ZkClient;
beforeEach(async () => {
  path = server.path('participants');
  [client, other] = await Promise.all([connect(), connect()]);
});

describe('the participants of a mutex', () => {
  it('are an empty list without the path or nodes, and have only a host and pid without details', async () => {
    const mutex = new Mutex(await connect(), path);
    expect(await mutex.participants()).toEqual([]);
    await mutex.withLock(async () => {
      const [holder] = await mutex.participants();
      expect(holder).toMatchObject({ host: hostname(), pid: process.pid });
      const given = Object.values(holder!.details ?? {}).filter((value) => value !== undefined);
      expect(given).toEqual([]);
    });
    expect(await mutex.participants()).toEqual([]);
  });

  it('are the holder and the waiters in order, with their details', async () => {
    const clients = await Promise.all([connect(), connect(), connect()]);
    const details: HolderDetails[] = [
      {
        name: 'billing-1',
        text: 'closing the month',
        data: { month: 11, lines: [1, 'zwei', null] },
      },
      { name: 'billing-2' },
      { data: 'käse' },
    ];
    const leases = [];
    const bounds: [from: number, to: number][] = [];
    for (const [index, client] of clients.entries()) {
      const from = Date.now();
      leases.push(new Mutex(client, path).acquire({ details: details[index]! }));
      await untilNodes(client, path, index + 1);
      bounds.push([from, Date.now()]);
    }
    const participants = await new Mutex(clients[2]!, path).participants();
    expect(participants.map(({ state }) => state)).toEqual(['holding', 'waiting', 'waiting']);
    for (const [index, participant] of participants.entries()) {
      expect(participant).toMatchObject({
        path: expect.stringMatching(new RegExp(`^${path}/_c_.*-lock-000000000${index}$`)),
        mode: 'exclusive',
        session: (await clients[index]!.session()).id,
        revoked: false,
        host: hostname(),
        pid: process.pid,
      });
      expect(participant.details).toEqual(details[index]);
      const since = participant.since.getTime();
      expect(since).toBeGreaterThanOrEqual(bounds[index]![0]);
      expect(since).toBeLessThanOrEqual(bounds[index]![1]);
      expect(participant).not.toHaveProperty('text');
    }
    for (const lease of leases) await (await lease).release();
  });

  it('have one entry for a process whose callers queue locally', async () => {
    const lease = await new Mutex(client, path).acquire({ details: { name: 'first' } });
    const waiting = ['second', 'third'].map((name) =>
      new Mutex(client, path).acquire({ details: { name } }),
    );
    const elsewhere = new Mutex(other, path).acquire({ details: { name: 'elsewhere' } });
    await untilNodes(client, path, 2);
    const names = async () =>
      (await new Mutex(other, path).participants()).map(({ details }) => details?.name);
    expect(await names()).toEqual(['first', 'elsewhere']);
    // Held long enough for other processes to be next.
    await delay(15);
    await lease.release();
    const theirs = await elsewhere;
    await untilNodes(other, path, 2);
    expect(await names()).toEqual(['elsewhere', 'second']);
    await theirs.release();
    await (await waiting[0]!).release();
    await (await waiting[1]!).release();
  });

  it('show the present holder when the caller that created the node has left', async () => {
    const held = await new Mutex(client, path).acquire();
    const controller = new AbortController();
    const mutex = new Mutex(other, path);
    const first = mutex.acquire({ signal: controller.signal, details: { name: 'impatient' } });
    const second = mutex.acquire({ details: { name: 'patient' } });
    await untilNodes(client, path, 2);
    controller.abort();
    await expect(first).rejects.toMatchObject({ code: 'CANCELLED' });
    await held.release();
    await using _lease = await second;
    await expect.poll(async () => (await mutex.participants())[0]?.details?.name).toBe('patient');
  });

  it('are exact in the process of the holder: who holds since when, or that the lock lingers', async () => {
    const mutex = new Mutex(client, path);
    const seen = async () => (await new Mutex(other, path).participants())[0]!;
    const holding = async (name: string) => {
      const granted = Date.now();
      const participant = await seen();
      expect(participant).toMatchObject({ state: 'holding', mayLinger: false, details: { name } });
      expect(Math.abs(participant.since.getTime() - granted)).toBeLessThanOrEqual(1);
    };
    const linger = 3_600_000;
    await mutex.withLock(() => holding('first'), { linger, details: { name: 'first' } });
    const [node] = await nodesUnder(client, path);
    const held = await mutex.acquire({ linger, details: { name: 'second' } });
    await held.release();
    const released = Date.now();
    await delay(100);
    const idle = await seen();
    expect(idle).toMatchObject({ state: 'lingering', mayLinger: false, pid: process.pid });
    expect(idle.details).toBeUndefined();
    expect(Math.abs(idle.since.getTime() - released)).toBeLessThanOrEqual(1);
    const third = await mutex.acquire({ linger, details: { name: 'third' } });
    await delay(100);
    const next = mutex.withLock(() => holding('fourth'), { linger, details: { name: 'fourth' } });
    await third.release();
    await next;
    expect(await nodesUnder(client, path)).toEqual([node]);
    expect(await seen()).toMatchObject({ state: 'lingering' });
  });

  it('include nodes of other clients, with their data as text', async () => {
    await client.ensureContainers(path);
    const foreign = [
      // The address of a host, as Curator writes it.
      '192.168.7.9',
      '',
      '{"host":7}',
      'null',
      '17',
      '["host", 7]',
      '{"pid":7}',
      '{"host":"a"}',
    ];
    for (const data of foreign) {
      const name = `_c_0d7c8a4e-1111-4222-8333-444455556666-lock-`;
      await client.create(`${path}/${name}`, data, { mode: 'ephemeral-sequential' });
    }
    const waiting = new Mutex(client, path).acquire({ details: { name: 'ours' } });
    await untilNodes(client, path, foreign.length + 1);
    const all = await new Mutex(client, path).participants();
    const ours = all.pop();
    expect(all.map(({ text }) => text)).toEqual(foreign);
    for (const [index, participant] of all.entries()) {
      const state = index === 0 ? 'holding' : 'waiting';
      expect(participant).toMatchObject({ state, revoked: false });
      expect(participant).not.toHaveProperty('host');
    }
    expect(ours).toMatchObject({ state: 'waiting', details: { name: 'ours' } });
    for (const theirs of all) await client.delete(theirs.path);
    await (await waiting).release();
  });
});

describe('the participants of a read/write lock', () => {
  it('are those of both locks, with the readers up to the first writer as holders', async () => {
    const clients = await Promise.all([connect(), connect(), connect(), connect()]);
    const locks = clients.map((client) => new ReadWriteLock(client, path));
    const visits = [];
    for (const [index, mode] of (['read', 'read', 'write', 'read'] as const).entries()) {
      visits.push(locks[index]![mode].acquire({ details: { name: `${mode} ${index}` } }));
      await untilNodes(clients[0]!, path, index + 1);
    }
    const seen = await locks[3]!.write.participants();
    expect(seen.map(({ state, mode, details }) => [state, mode, details?.name])).toEqual([
      ['holding', 'read', 'read 0'],
      ['holding', 'read', 'read 1'],
      ['waiting', 'write', 'write 2'],
      ['waiting', 'read', 'read 3'],
    ]);
    expect(await locks[0]!.read.participants()).toEqual(seen);
    await Promise.all([(await visits[0]!).release(), (await visits[1]!).release()]);
    const writing = await visits[2]!;
    const states = (await locks[0]!.read.participants()).map(({ state }) => state);
    expect(states).toEqual(['holding', 'waiting']);
    await writing.release();
    await (await visits[3]!).release();
  });

  it('are the readers of one znode with the one that has held it longest', async () => {
    const { read } = new ReadWriteLock(client, path);
    const leases = await Promise.all(
      ['one', 'two'].map((name) => read.acquire({ details: { name }, linger: 60_000 })),
    );
    const seen = async () =>
      (await read.participants()).map(({ state, details }) => [state, details?.name]);
    expect(await seen()).toEqual([['holding', 'one']]);
    await leases[0]!.release();
    expect(await seen()).toEqual([['holding', 'two']]);
    await leases[1]!.release();
    expect(await seen()).toEqual([['lingering', undefined]]);
  });

  it('show a writer that also reads as both', async () => {
    const lock = new ReadWriteLock(client, path);
    const waiting = await lock.write.withLock((writing) =>
      lock.read.withLock(async () => {
        const next = new ReadWriteLock(other, path).read.acquire();
        await untilNodes(client, path, 3);
        const seen = await lock.read.participants();
        expect(seen.map(({ state, mode }) => `${state} ${mode}`)).toEqual([
          'holding write',
          'holding read',
          'waiting read',
        ]);
        expect(writing.held).toBe(true);
        return { next };
      }),
    );
    await (await waiting.next).release();
  });
});

describe('the participants of a semaphore', () => {
  it('are a holder for each permit, the caller at the head, and the waiters behind it', async () => {
    const clients = await Promise.all([connect(), connect(), connect(), connect()]);
    const of = (index: number) => new Semaphore(clients[index]!, path, { permits: 3 });
    const held = await of(0).acquire({ count: 2, details: { name: 'pair' } });
    const single = await of(1).acquire({ details: { name: 'single' } });
    const asking = of(2).acquire({ details: { name: 'asks' } });
    await untilNodes(clients[0]!, `${path}/leases`, 4);
    const behind = of(3).acquire({ details: { name: 'behind' } });
    await untilNodes(clients[0]!, `${path}/locks`, 2);
    const seen = await of(0).participants();
    expect(seen.map(({ state, mode }) => `${state} ${mode}`)).toEqual([
      'holding permit',
      'holding permit',
      'holding permit',
      'waiting permit',
      'waiting permit',
    ]);
    const names = ['pair', 'pair', 'single', 'asks', 'behind'];
    expect(seen.map(({ details }) => details?.name)).toEqual(names);
    expect(seen[4]!.session).toBe((await clients[3]!.session()).id);
    await held.release();
    await Promise.all([(await asking).release(), (await behind).release(), single.release()]);
    expect(await of(0).participants()).toEqual([]);
  });

  it('keep their permits when the shared number of permits is lowered', async () => {
    const permits = new SharedCount(client, `${path}-count`);
    await permits.set(2);
    const semaphore = new Semaphore(client, path, { permits });
    const leases = [await semaphore.acquire(), await semaphore.acquire()];
    await permits.set(1);
    const states = async () => (await semaphore.participants()).map(({ state }) => state);
    expect(await states()).toEqual(['holding', 'holding']);
    const waiting = semaphore.acquire();
    await untilNodes(client, `${path}/leases`, 3);
    expect(await states()).toEqual(['holding', 'holding', 'waiting']);
    for (const lease of leases) await lease.release();
    await (await waiting).release();
  });

  it('wait for all of their permits, even when some are free', async () => {
    const semaphore = new Semaphore(client, path, { permits: 3 });
    const theirs = await new Semaphore(other, path, { permits: 3 }).acquire();
    const ours = await semaphore.acquire();
    // The session of the waiting request holds one permit already.
    const waiting = semaphore.acquire({ count: 2 });
    await untilNodes(client, `${path}/leases`, 4);
    await expect
      .poll(async () => (await semaphore.participants()).map(({ state }) => state))
      .toEqual(['holding', 'holding', 'waiting', 'waiting']);
    await semaphore.revoke();
    const seen = await semaphore.participants();
    expect(seen.map(({ revoked }) => revoked)).toEqual([true, true, false, false]);
    await Promise.all([theirs.release(), ours.release()]);
    await (await waiting).release();
  });

  it('are holders as soon as they are granted, even before they leave the head of the queue', async () => {
    const semaphore = new Semaphore(other, path, { permits: 1 });
    await client.ensureContainers(`${path}/locks`);
    await client.ensureContainers(`${path}/leases`);
    const door = await client.create(`${path}/locks/_c_x-lock-`, '', {
      mode: 'ephemeral-sequential',
    });
    const states = async () => (await semaphore.participants()).map(({ state }) => state);
    expect(await states()).toEqual(['waiting']);
    const lease = await client.create(`${path}/leases/_c_x-lease-`, '', {
      mode: 'ephemeral-sequential',
    });
    expect(await states()).toEqual(['holding']);
    await client.delete(door);
    await client.delete(lease);
  });
});

it('details that are no details are rejected before any request is sent', async () => {
  const circle: { self?: unknown } = {};
  circle.self = circle;
  for (const bad of [
    null,
    'me',
    { name: 7 },
    { text: {} },
    { text: 'x'.repeat(5000) },
    { data: 1n },
    { data: circle },
  ]) {
    const details = bad as HolderDetails;
    for (const lock of [new Mutex(client, path), new Semaphore(client, path, { permits: 2 })]) {
      await expect(lock.acquire({ details })).rejects.toThrow(BadOptionError);
    }
  }
  expect(await client.exists(path)).toBeUndefined();
});
