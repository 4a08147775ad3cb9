import { describe, expect, vi } from 'vitest';
import { BadOptionError, LeaderLatch, LeaderSelector } from 'nestjs-zookeeper/recipes';
import { aborted, expire, useClients } from '../../support/clients.js';
import { nodesUnder, untilNodes } from '../../support/recipe-nodes.js';
import { useServer } from '../../support/servers.js';
import { it } from '../../support/virtual-time.js';

const server = useServer();
const connect = useClients(server);

/** Starts latches one after the other, so that they queue in this order. */
async function start(path: string, priorities: (number | undefined)[]): Promise<LeaderLatch[]> {
  const latches: LeaderLatch[] = [];
  for (const [index, priority] of priorities.entries()) {
    const client = await connect();
    const latch = new LeaderLatch(client, path, { id: `${index}`, priority });
    latch.start();
    await untilNodes(client, path, index + 1);
    latches.push(latch);
  }
  return latches;
}

describe('candidates with priorities', () => {
  it('give the leadership up to a higher one, and take it back when that one leaves', async () => {
    const path = server.path('priority-order');
    const [low] = await start(path, [0, 0]);
    const before = await low!.await();
    const [node] = await nodesUnder(low!.client, path);
    expect(node).toMatch(/^_c_[-0-9a-f]{36}-p0-latch-0000000000$/);
    const high = new LeaderLatch(await connect(), path, { id: 'high', priority: 10 });
    high.start();
    const term = await high.await();
    expect(before.active).toBe(false);
    expect(before.signal.reason).toMatchObject({
      message: expect.stringContaining('given up for a candidate with a higher priority'),
    });
    expect(term.fencingToken).toBeGreaterThan(before.fencingToken);
    await high.close();
    await expect.poll(async () => (await low!.leader())?.id).toMatch(/0|1/);
  });

  it('lead in the order of their priorities when the leader loses its session', async () => {
    const path = server.path('priority-loss');
    const [, second, , first] = await start(path, [1, 5, 3, 9]);
    const term = await first!.await();
    const lost = aborted(term.signal);
    await expire(first!.client, server);
    await lost;
    const next = await second!.await();
    expect(next.fencingToken).toBeGreaterThan(term.fencingToken);
    // It joins again with a new session, and leads again.
    await first!.await();
    expect(next.active).toBe(false);
  });

  it('give the leadership up although reads of the queue failed before, which is reported once', async () => {
    const path = server.path('priority-retry');
    const client = await connect();
    const errors: unknown[] = [];
    const low = new LeaderLatch(client, path, { priority: 0, onError: (e) => errors.push(e) });
    low.start();
    await low.await();
    const session = await client.session();
    const children = vi.spyOn(session, 'children').mockRejectedValue(new Error('refused'));
    const high = new LeaderLatch(await connect(), path, { priority: 1 });
    high.start();
    await expect.poll(() => children.mock.calls.length).toBeGreaterThan(3);
    expect(errors).toHaveLength(1);
    children.mockRestore();
    await high.await();
    await low.close();
  });

  it('never give way to an equal priority', async () => {
    const path = server.path('priority-equal');
    const [first, second] = await start(path, [4, 4]);
    const term = await first!.await();
    await first!.resign();
    const next = await second!.await();
    expect(next.fencingToken).toBeGreaterThan(term.fencingToken);
    await untilNodes(second!.client, path, 2);
    expect(next.active).toBe(true);
  });

  it('wait behind a candidate without a priority, as Curator has none', async () => {
    const path = server.path('priority-curator');
    const [plain, high] = await start(path, [undefined, 100]);
    const term = await plain!.await();
    const other = new LeaderLatch(await connect(), path, { priority: 200 });
    other.start();
    await untilNodes(other.client, path, 3);
    expect(term.active).toBe(true);
    await plain!.close();
    await other.await();
    expect(high!.hasLeadership).toBe(false);
  });

  it('let a selector finish before the higher one leads, and queue up again without autoRequeue', async () => {
    const path = server.path('priority-selector');
    const events: string[] = [];
    let end = () => {};
    const low = new LeaderSelector(
      await connect(),
      path,
      async ({ signal }) => {
        events.push('low leads');
        if (signal.aborted) return;
        await new Promise<void>((resolve) => {
          signal.addEventListener('abort', () => {
            events.push('low is notified');
            setImmediate(() => {
              events.push('low ends');
              resolve();
            });
          });
        });
      },
      { priority: 1 },
    );
    low.start();
    await expect.poll(() => events).toEqual(['low leads']);
    const high = new LeaderSelector(
      await connect(),
      path,
      () => {
        events.push('high leads');
        return new Promise<void>((resolve) => (end = resolve));
      },
      { priority: 2 },
    );
    high.start();
    await expect.poll(() => events.at(-1)).toBe('high leads');
    end();
    await expect.poll(() => events.at(-1)).toBe('low leads');
    expect(events).toEqual(['low leads', 'low is notified', 'low ends', 'high leads', 'low leads']);
    await Promise.all([low.close(), high.close()]);
  });

  it.each([-1, 1.5, Infinity, '1', null])('refuse the priority %j', async (priority) => {
    const client = await connect();
    const create = () => new LeaderLatch(client, '/x', { priority: priority as number });
    expect(create).toThrow(BadOptionError);
    expect(create).toThrow(/priority must be a whole number of 0 or more, but is/);
  });
});
