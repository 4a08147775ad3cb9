import { describe, expect, it } from 'vitest';
import {
  BadOptionError,
  DistributedDoubleBarrier,
  IllegalStateError,
  LeaseLostError,
  WaitTimeoutError,
  RecipeConflictError,
  ShuttingDownError,
  WaitCancelledError,
  type ZkClient,
} from 'nestjs-zookeeper/coordination/recipes';
import { Mutex } from 'nestjs-zookeeper/recipes';
import { aborted, expire, untilState, useClients } from '../../support/clients.js';
import { eventually } from '../../support/eventually.js';
import { useLinks } from '../../support/link.js';
import { failureOf, nodesUnder } from '../../support/recipe-nodes.js';
import { useServer } from '../../support/servers.js';

const server = useServer({ own: true });
const newLink = useLinks(server);
const connect = useClients(server);

async function members(count: number, needed = count) {
  const path = server.path('double');
  const clients = await Promise.all(Array.from({ length: count }, () => connect()));
  const barriers = clients.map((client) => new DistributedDoubleBarrier(client, path, needed));
  return { path, clients, barriers };
}

const present = (client: ZkClient, path: string, count: number) =>
  eventually(async () => expect(await nodesUnder(client, path)).toHaveLength(count));

describe('a double barrier', () => {
  it('lets all members begin together and end together, any number of times', async () => {
    const { path, clients, barriers } = await members(3);
    const events: string[] = [];
    for (let round = 0; round < 3; round++) {
      await Promise.all(
        barriers
          .map(async (barrier, index) => {
            // The members arrive one after the other.
            await present(clients[index]!, path, index);
            events.push('arrived');
            await barrier.enter();
            events.push('inside');
            await barrier.leave();
          })
          .map(async (leaving) => {
            await leaving;
            events.push('left');
          }),
      );
      expect(
        events
          .splice(0)
          .map((event) => event[0])
          .join(''),
      ).toMatch(/^aaaiiilll$/);
      expect(await nodesUnder(clients[0]!, path)).toEqual([]);
    }
    await eventually(async () => expect(await server.watchCount()).toBe(0));
  });

  it('a member that leaves first waits for the others', async () => {
    const { barriers } = await members(3);
    await Promise.all(barriers.map((barrier) => barrier.enter()));
    let left = 0;
    const leaving = barriers.slice(1).map((barrier) => barrier.leave().then(() => left++));
    await expect(Promise.race([...leaving, Promise.resolve('waits')])).resolves.toBe('waits');
    await eventually(async () => expect(await server.watchCount()).toBeGreaterThanOrEqual(2));
    expect(left).toBe(0);
    await barriers[0]!.leave();
    await Promise.all(leaving);
  });

  it('lets a member in that comes late', async () => {
    const { barriers } = await members(3, 2);
    await Promise.all(barriers.slice(1).map((barrier) => barrier.enter()));
    await barriers[0]!.enter({ wait: 0 });
    await Promise.all(barriers.map((barrier) => barrier.leave()));
  });

  it('leaves no znode when an enter times out or is cancelled', async () => {
    const { path, clients, barriers } = await members(2);
    const timedOut = await failureOf(barriers[0]!.enter({ wait: 30 }));
    expect(timedOut).toBeInstanceOf(WaitTimeoutError);
    expect((timedOut as Error).message).toBe(
      `the wait for 2 members to enter double barrier ${path} was not over within 30 ms: start the missing members, or pass a longer wait`,
    );
    await expect(barriers[0]!.enter({ wait: 0 })).rejects.toThrow(WaitTimeoutError);
    expect(await nodesUnder(clients[0]!, path)).toEqual([]);
    const controller = new AbortController();
    const entering = barriers[0]!.enter({ signal: controller.signal });
    await present(clients[1]!, path, 1);
    controller.abort();
    await expect(entering).rejects.toThrow(WaitCancelledError);
    expect(await nodesUnder(clients[0]!, path)).toEqual([]);
    await Promise.all(barriers.map((barrier) => barrier.enter()));
    await Promise.all(barriers.map((barrier) => barrier.leave()));
  });

  it('deletes the znode of a member whose leave times out, so that the others can leave', async () => {
    const { path, clients, barriers } = await members(2);
    await Promise.all(barriers.map((barrier) => barrier.enter()));
    const timedOut = await failureOf(barriers[0]!.leave({ wait: 30 }));
    expect(timedOut).toBeInstanceOf(WaitTimeoutError);
    expect((timedOut as Error).message).toBe(
      `the wait for the other members to leave double barrier ${path} was not over within 30 ms: call leave() in each member, or pass a longer wait`,
    );
    await barriers[1]!.leave();
    expect(await nodesUnder(clients[0]!, path)).toEqual([]);
    await expect(barriers[0]!.leave()).rejects.toThrow(IllegalStateError);
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
    const waits = barriers.slice(0, 2).map((barrier) => barrier.enter());
    await present(clients[2]!, path, 2);
    const before = await nodesUnder(clients[2]!, path);
    await expire(clients[0]!, server);
    await eventually(async () => {
      const now = await nodesUnder(clients[2]!, path);
      expect(now).toHaveLength(2);
      expect(now.toSorted()).not.toEqual(before.toSorted());
    });
    await barriers[2]!.enter();
    await Promise.all(waits);
    await Promise.all(barriers.map((barrier) => barrier.leave()));
  });

  it('reports the loss of a member that is inside, and the others leave without it', async () => {
    const { path, clients, barriers } = await members(2);
    await Promise.all(barriers.map((barrier) => barrier.enter()));
    const lost = aborted(barriers[0]!.signal!);
    await expire(clients[0]!, server);
    expect(await lost).toBeInstanceOf(LeaseLostError);
    await barriers[1]!.leave();
    await expect(barriers[0]!.leave()).rejects.toThrow('its session ended');
    await expect(barriers[0]!.leave()).rejects.toThrow(IllegalStateError);
    expect(await nodesUnder(clients[1]!, path)).toEqual([]);
  });

  it('lets a lost member enter again', async () => {
    const { clients, barriers } = await members(2);
    await Promise.all(barriers.map((barrier) => barrier.enter()));
    const lost = aborted(barriers[0]!.signal!);
    await expire(clients[0]!, server);
    await lost;
    await barriers[0]!.enter();
    await Promise.all(barriers.map((barrier) => barrier.leave()));
  });

  it('reports a znode that another client deleted, inside and while it waits', async () => {
    const { path, clients, barriers } = await members(2);
    const entering = barriers[0]!.enter();
    entering.catch(() => {});
    await present(clients[1]!, path, 1);
    const remove = async () => {
      for (const name of await nodesUnder(clients[1]!, path))
        await clients[1]!.delete(`${path}/${name}`);
    };
    await remove();
    await expect(entering).rejects.toThrow(LeaseLostError);
    await Promise.all(barriers.map((barrier) => barrier.enter()));
    const lost = aborted(barriers[0]!.signal!);
    await remove();
    expect(await lost).toMatchObject({ code: 'LEASE_LOST', key: path });
    await expect(barriers[0]!.leave()).rejects.toThrow('another client deleted');
  });

  it('does not open by the ready znode of members that crashed', async () => {
    const { path, clients, barriers } = await members(4, 2);
    await Promise.all(barriers.slice(2).map((barrier) => barrier.enter()));
    await Promise.all(clients.slice(2).map((client) => client.close()));
    await eventually(async () => expect(await nodesUnder(clients[0]!, path)).toEqual(['ready']));
    await expect(barriers[0]!.enter({ wait: 50 })).rejects.toThrow(WaitTimeoutError);
    await Promise.all(barriers.slice(0, 2).map((barrier) => barrier.enter()));
    await Promise.all(barriers.slice(0, 2).map((barrier) => barrier.leave()));
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

  it('does not let a member whose leave timed out enter the same round again', async () => {
    const { path, clients, barriers } = await members(2);
    await Promise.all(barriers.map((barrier) => barrier.enter()));
    await expect(barriers[0]!.leave({ wait: 30 })).rejects.toThrow(WaitTimeoutError);
    await expect(barriers[0]!.enter({ wait: 50 })).rejects.toThrow(WaitTimeoutError);
    await expect(barriers[0]!.enter({ wait: 0 })).rejects.toThrow(WaitTimeoutError);
    const entering = barriers[0]!.enter();
    await barriers[1]!.leave();
    await barriers[1]!.enter();
    await entering;
    await Promise.all(barriers.map((barrier) => barrier.leave()));
    expect(await nodesUnder(clients[0]!, path)).toEqual([]);
    await eventually(async () => expect(await server.watchCount()).toBe(0));
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
      await expect(other.enter({ signal: AbortSignal.timeout(30) })).rejects.toThrow(
        WaitCancelledError,
      );
      await expect(one.leave({ wait: 30 })).rejects.toThrow(WaitTimeoutError);
    } finally {
      await server.start();
    }
    await other.enter();
    await other.leave();
    await eventually(async () => expect(await nodesUnder(outside, path)).toEqual([]));
  });

  it('ends its waits by their timeout and their signal while the server does not reply, and leaves no znode', async () => {
    const path = server.path('double');
    const link = await newLink();
    const [client, other] = [
      await connect({ connectString: link.connectString, sessionTimeout: 30_000 }),
      await connect(),
    ];
    const [one, second] = [client, other].map(
      (each) => new DistributedDoubleBarrier(each, path, 2),
    );
    await other.ensureContainers(path);
    await link.deafen();
    const error = await failureOf(one!.enter({ wait: 100 }));
    expect(error).toBeInstanceOf(WaitTimeoutError);
    const signal = AbortSignal.timeout(100);
    await expect(one!.enter({ signal })).rejects.toThrow(WaitCancelledError);
    expect(client.connected).toBe(true);
    const entering = one!.enter();
    // Three creates and two deletes.
    await eventually(async () => expect((await other.exists(path))?.cversion).toBe(5));
    expect(await nodesUnder(other, path)).toHaveLength(1);
    await link.cut();
    await Promise.all([entering, second!.enter()]);
    await link.deafen();
    await expect(one!.leave({ wait: 100 })).rejects.toThrow(WaitTimeoutError);
    expect(client.connected).toBe(true);
    await second!.leave();
    expect(await nodesUnder(other, path)).toEqual([]);
  });

  it('rejects an enter and a leave when the client is closed', async () => {
    const { path, clients, barriers } = await members(3, 2);
    const entering = barriers[0]!.enter();
    entering.catch(() => {});
    await present(clients[1]!, path, 1);
    await clients[0]!.close();
    await expect(entering).rejects.toThrow(ShuttingDownError);
    await Promise.all(barriers.slice(1).map((barrier) => barrier.enter()));
    const leaving = barriers[1]!.leave();
    leaving.catch(() => {});
    await clients[1]!.close();
    await expect(leaving).rejects.toThrow(ShuttingDownError);
    await barriers[2]!.leave();
  });

  it('ends its waits by the signal of the object', async () => {
    const { path, clients } = await members(1);
    const stopping = new AbortController();
    const { signal } = stopping;
    const barrier = new DistributedDoubleBarrier(clients[0]!, path, 2, { signal });
    const entering = barrier.enter();
    entering.catch(() => {});
    await present(clients[0]!, path, 1);
    stopping.abort(new Error('the end'));
    await expect(entering).rejects.toThrow('the end');
    expect(await nodesUnder(clients[0]!, path)).toEqual([]);
  });

  it('refuses a path that another recipe uses, and wrong arguments', async () => {
    const { path, clients } = await members(1);
    const client = clients[0]!;
    const lease = await new Mutex(client, path).acquire();
    const barrier = new DistributedDoubleBarrier(client, path, 1);
    await expect(barrier.enter()).rejects.toThrow(RecipeConflictError);
    expect(await nodesUnder(client, path)).toHaveLength(1);
    await lease.release();
    for (const wrong of [0, -1, 1.5, '2', undefined]) {
      expect(() => new DistributedDoubleBarrier(client, path, wrong as number)).toThrow(
        'members must be',
      );
    }
    expect(() => new DistributedDoubleBarrier(client, 'x', 1)).toThrow(BadOptionError);
    await expect(barrier.enter({ wait: Number.NaN })).rejects.toThrow('wait must be');
  });
});
