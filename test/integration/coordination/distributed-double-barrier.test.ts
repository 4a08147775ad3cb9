import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect } from 'vitest';
import {
  BadOptionError,
  IllegalStateError,
  LeaseLostError,
  Mutex,
  RecipeConflictError,
  ShuttingDownError,
  WaitCancelledError,
  type ZkClient,
} from 'nestjs-zookeeper/recipes';
import { DistributedDoubleBarrier, WaitTimeoutError } from 'nestjs-zookeeper/coordination';
import { aborted, expire, untilState, useClients, useLinks } from '../../support/clients.js';
import { eventually } from '../../support/eventually.js';
import { nodesUnder, untilNodes } from '../../support/recipe-nodes.js';
import { useServer } from '../../support/servers.js';
import { it } from '../../support/virtual-time.js';

const server = useServer({ own: true });
const newLink = useLinks(server);
const connect = useClients(server);

async function members(count: number, needed = count) {
  const path = server.path('double');
  const clients = await Promise.all(Array.from({ length: count }, () => connect()));
  const barriers = clients.map((client) => new DistributedDoubleBarrier(client, path, needed));
  return { path, clients, barriers };
}

const enter = (barriers: DistributedDoubleBarrier[]) =>
  Promise.all(barriers.map((barrier) => barrier.enter()));
const leave = (barriers: DistributedDoubleBarrier[]) =>
  Promise.all(barriers.map((barrier) => barrier.leave()));

async function removeMembers(client: ZkClient, path: string) {
  for (const name of await nodesUnder(client, path)) await client.delete(`${path}/${name}`);
}

describe('a double barrier', () => {
  it('lets all members begin together and end together, any number of times', async () => {
    const { path, clients, barriers } = await members(3);
    for (let round = 0; round < 2; round++) {
      const events: string[] = [];
      await Promise.all(
        barriers.map(async (barrier, index) => {
          // The members arrive, and leave, one after the other.
          await untilNodes(clients[index]!, path, index);
          events.push('arrived');
          await barrier.enter();
          events.push('inside');
          await delay(20 * index);
          events.push('leaves');
          await barrier.leave();
          events.push('ended');
        }),
      );
      expect(events.map(([letter]) => letter).join('')).toMatch(/^aaa[il]{6}eee$/);
      expect(await nodesUnder(clients[0]!, path)).toEqual([]);
    }
    await eventually(async () => expect(await server.watchCount()).toBe(0));
  });

  it('lets a member in that comes late', async () => {
    const { path, clients, barriers } = await members(3, 2);
    await enter(barriers.slice(1));
    await barriers[0]!.enter({ wait: 0 });
    expect(await nodesUnder(clients[0]!, path)).toHaveLength(4);
    await leave(barriers);
    expect(await nodesUnder(clients[0]!, path)).toEqual([]);
  });

  it('leaves no znode when an enter times out or is cancelled', async () => {
    const { path, clients, barriers } = await members(2, 3);
    await expect(barriers[0]!.enter({ wait: 30 })).rejects.toThrow(
      new WaitTimeoutError(
        `the wait for 3 members to enter double barrier ${path} was not over within 30 ms: start the missing members, or pass a longer wait`,
        { key: path },
      ),
    );
    await expect(barriers[0]!.enter({ wait: 0 })).rejects.toThrow(WaitTimeoutError);
    expect(await nodesUnder(clients[0]!, path)).toEqual([]);
    const [cancel, stop] = [new AbortController(), new AbortController()];
    const stopped = new DistributedDoubleBarrier(clients[1]!, path, 3, { signal: stop.signal });
    const waits = [
      expect(barriers[0]!.enter({ signal: cancel.signal })).rejects.toThrow(WaitCancelledError),
      expect(stopped.enter()).rejects.toThrow('the end'),
    ];
    await untilNodes(clients[1]!, path, 2);
    cancel.abort();
    stop.abort(new Error('the end'));
    await Promise.all(waits);
    await untilNodes(clients[0]!, path, 0);
  });

  it('deletes the znode of a member whose leave times out, which cannot enter the same round again', async () => {
    const { path, clients, barriers } = await members(2);
    const [one, other] = barriers as [DistributedDoubleBarrier, DistributedDoubleBarrier];
    await enter(barriers);
    await expect(one.leave({ wait: 30 })).rejects.toThrow(
      new WaitTimeoutError(
        `the wait for the other members to leave double barrier ${path} was not over within 30 ms: call leave() in each member, or pass a longer wait`,
        { key: path },
      ),
    );
    await expect(one.leave()).rejects.toThrow(IllegalStateError);
    await expect(one.enter({ wait: 50 })).rejects.toThrow(WaitTimeoutError);
    await expect(one.enter({ wait: 0 })).rejects.toThrow(WaitTimeoutError);
    const entering = one.enter();
    await other.leave();
    await other.enter();
    await entering;
    await leave(barriers);
    expect(await nodesUnder(clients[0]!, path)).toEqual([]);
    await eventually(async () => expect(await server.watchCount()).toBe(0));
  });

  it('refuses a second enter, and a leave without an enter', async () => {
    const { barriers } = await members(1);
    const [one] = barriers as [DistributedDoubleBarrier];
    expect(one.signal).toBeUndefined();
    await expect(one.leave()).rejects.toThrow(IllegalStateError);
    const entering = one.enter();
    await expect(one.enter()).rejects.toThrow(IllegalStateError);
    await expect(one.leave()).rejects.toThrow(IllegalStateError);
    await entering;
    await expect(one.enter()).rejects.toThrow('is inside');
    await one.leave();
    expect(one.signal!.aborted).toBe(false);
  });

  it('enters again when the session ends while it waits, and counts no member twice', async () => {
    const { path, clients, barriers } = await members(3);
    const waits = enter(barriers.slice(0, 2));
    await untilNodes(clients[2]!, path, 2);
    const before = await nodesUnder(clients[2]!, path);
    await expire(clients[0]!, server);
    await eventually(async () => {
      const now = await nodesUnder(clients[2]!, path);
      expect(now).toHaveLength(2);
      expect(now).not.toEqual(before);
    });
    await barriers[2]!.enter();
    await waits;
    await leave(barriers);
  });

  it('reports the loss of a member that is inside, which can enter again, and the others leave without it', async () => {
    const { path, clients, barriers } = await members(2);
    const [one, other] = barriers as [DistributedDoubleBarrier, DistributedDoubleBarrier];
    const lose = async () => {
      const lost = aborted(one.signal!);
      await expire(clients[0]!, server);
      expect(await lost).toBeInstanceOf(LeaseLostError);
    };
    await enter(barriers);
    await lose();
    await one.enter();
    await lose();
    await other.leave();
    await expect(one.leave()).rejects.toThrow('its session ended');
    await expect(one.leave()).rejects.toThrow(IllegalStateError);
    expect(await nodesUnder(clients[1]!, path)).toEqual([]);
  });

  it('reports a znode that another client deleted, inside and while it waits', async () => {
    const { path, clients, barriers } = await members(2);
    const entering = expect(barriers[0]!.enter()).rejects.toThrow(LeaseLostError);
    await untilNodes(clients[1]!, path, 1);
    await removeMembers(clients[1]!, path);
    await entering;
    await enter(barriers);
    const lost = aborted(barriers[0]!.signal!);
    await removeMembers(clients[1]!, path);
    expect(await lost).toMatchObject({ code: 'LEASE_LOST', key: path });
    await expect(barriers[0]!.leave()).rejects.toThrow('another client deleted');
  });

  it('does not open by the ready znode of members that crashed', async () => {
    const { path, clients, barriers } = await members(4, 2);
    await enter(barriers.slice(2));
    await Promise.all(clients.slice(2).map((client) => client.close()));
    await eventually(async () => expect(await nodesUnder(clients[0]!, path)).toEqual(['ready']));
    await expect(barriers[0]!.enter({ wait: 50 })).rejects.toThrow(WaitTimeoutError);
    await enter(barriers.slice(0, 2));
    await leave(barriers.slice(0, 2));
    expect(await nodesUnder(clients[0]!, path)).toEqual([]);
  });

  it('does not delete the ready znode of the next round by a late delete', async () => {
    const { path, clients, barriers } = await members(2, 1);
    const [first, second] = barriers as [DistributedDoubleBarrier, DistributedDoubleBarrier];
    await first.enter();
    const client = clients[0]!;
    const { delete: remove } = client;
    client.delete = async (...args) => {
      Object.assign(client, { delete: remove });
      await second.enter();
      return client.delete(...args);
    };
    await first.leave();
    expect(client.delete).toBe(remove);
    expect(await nodesUnder(client, path)).toContain('ready');
    await second.leave();
    expect(await nodesUnder(client, path)).toEqual([]);
  });

  it('ends its waits by their timeout and their signal while there is no connection', async () => {
    const path = server.path('double');
    const retry = { type: 'forever', delay: 50 } as const;
    const [inside, outside] = await Promise.all([connect({ retry }), connect({ retry })]);
    const one = new DistributedDoubleBarrier(inside, path, 1);
    const other = new DistributedDoubleBarrier(outside, path, 1);
    await one.enter();
    await server.stop();
    await Promise.all([untilState(inside, 'SUSPENDED'), untilState(outside, 'SUSPENDED')]);
    try {
      await expect(other.enter({ wait: 30 })).rejects.toThrow(WaitTimeoutError);
      const signal = AbortSignal.timeout(30);
      await expect(other.enter({ signal })).rejects.toThrow(WaitCancelledError);
      await expect(one.leave({ wait: 30 })).rejects.toThrow(WaitTimeoutError);
    } finally {
      await server.start();
    }
    await other.enter();
    await other.leave();
    await untilNodes(outside, path, 0);
  });

  it('ends its waits by their timeout and their signal while the server does not reply, and leaves no znode', async () => {
    const path = server.path('double');
    const link = await newLink();
    const { connectString } = link;
    const [client, other] = [
      await connect({ connectString, sessionTimeout: 30_000 }),
      await connect(),
    ];
    const one = new DistributedDoubleBarrier(client, path, 2);
    const second = new DistributedDoubleBarrier(other, path, 2);
    await other.ensureContainers(path);
    await link.holdReplies();
    await expect(one.enter({ wait: 100 })).rejects.toThrow(WaitTimeoutError);
    const signal = AbortSignal.timeout(100);
    await expect(one.enter({ signal })).rejects.toThrow(WaitCancelledError);
    expect(client.connected).toBe(true);
    const entering = one.enter();
    // Three creates and two deletes.
    await eventually(async () => expect((await other.exists(path))?.cversion).toBe(5));
    expect(await nodesUnder(other, path)).toHaveLength(1);
    await link.cut();
    await Promise.all([entering, second.enter()]);
    await link.holdReplies();
    await expect(one.leave({ wait: 100 })).rejects.toThrow(WaitTimeoutError);
    expect(client.connected).toBe(true);
    await second.leave();
    expect(await nodesUnder(other, path)).toEqual([]);
  });

  it('rejects an enter and a leave when the client is closed', async () => {
    const { path, clients, barriers } = await members(3, 2);
    const entering = expect(barriers[0]!.enter()).rejects.toThrow(ShuttingDownError);
    await untilNodes(clients[1]!, path, 1);
    await clients[0]!.close();
    await entering;
    await enter(barriers.slice(1));
    const leaving = expect(barriers[1]!.leave()).rejects.toThrow(ShuttingDownError);
    await clients[1]!.close();
    await leaving;
    await barriers[2]!.leave();
  });

  it('refuses a path that another recipe uses, and wrong arguments', async () => {
    const { path, clients, barriers } = await members(1);
    const [client, barrier] = [clients[0]!, barriers[0]!];
    const lease = await new Mutex(client, path).acquire();
    await expect(barrier.enter()).rejects.toThrow(RecipeConflictError);
    expect(await nodesUnder(client, path)).toHaveLength(1);
    await lease.release();
    for (const wrong of [0, 1.5, '2']) {
      expect(() => new DistributedDoubleBarrier(client, path, wrong as number)).toThrow(
        'members must be',
      );
    }
    expect(() => new DistributedDoubleBarrier(client, 'x', 1)).toThrow(BadOptionError);
    await expect(barrier.enter({ wait: Number.NaN })).rejects.toThrow('wait must be');
  });
});
