import { simulate, type SimulatedProcess, type World } from 'nestjs-zookeeper/testing';
import { ConnectionError, type ZkClient } from 'nestjs-zookeeper';
import { describe, expect, it } from 'vitest';

async function connected(world: World, sessionTimeout = 3000) {
  const process = world.process('a');
  const client = await process.client({ sessionTimeout });
  return { process, client, link: process.link };
}

/** Returns the virtual milliseconds that a read of a process takes. */
const readTime = (process: SimulatedProcess, client: ZkClient) =>
  process.run(async () => {
    const before = performance.now();
    await client.exists('/');
    return performance.now() - before;
  });

describe('the network of a simulation', () => {
  it('has a latency for each link, which can change during a run', async () => {
    await simulate({ seed: 1, latency: [5, 6] }, async (world) => {
      const { process, client, link } = await connected(world);
      expect(await readTime(process, client)).toBeGreaterThan(10);
      link.latency = [50, 60];
      expect(await readTime(process, client)).toBeGreaterThan(100);
      const other = world.process('b');
      expect(other.link).not.toBe(link);
      expect(await readTime(other, await other.client())).toBeLessThan(13);
    });
  });

  it('keeps the order of requests, whatever the latency, the cuts and the pauses', async () => {
    for (let seed = 1; seed <= 30; seed++) {
      await simulate({ seed, latency: [0, 5] }, async (world) => {
        const { process, client, link } = await connected(world, 30_000);
        const states: string[] = [];
        client.onState(({ state }) => states.push(state));
        await process.run(() => client.create('/log'));
        const writing = process.run(async () => {
          const writes: Promise<string>[] = [];
          for (let index = 0; index < 100; index++) {
            writes.push(
              client.create('/log/entry-', String(index), { mode: 'persistent-sequential' }),
            );
            await new Promise((resolve) => setTimeout(resolve, 1));
          }
          await Promise.all(writes);
        });
        for (let fault = 0; fault < 4; fault++) {
          await world.sleep(world.random.between(0, 10));
          const heal = link.cut(world.random.pick(['requests', 'replies', 'both']));
          await world.sleep(world.random.between(0, 10));
          heal();
          const target = world.random.pick([process, world.servers[0]!]);
          target.pause();
          await world.sleep(world.random.between(0, 10));
          target.resume();
        }
        await writing;
        const data = world.znodes('/log').map((node) => String(node.data));
        expect(data).toEqual(Array.from({ length: 100 }, (_, index) => String(index)));
        expect(states).toEqual([]);
      });
    }
  });

  it('lets a process that was paused read all replies at once', async () => {
    const microtasksBetween = async (pauses: boolean) => {
      const { value } = await simulate({ seed: 1, latency: [5, 5] }, async (world) => {
        const { process, client } = await connected(world);
        let microtasks = 0;
        const replies = process.run(async () => {
          const first = client.exists('/').then(async () => {
            for (; microtasks < 100; microtasks++) await undefined;
          });
          const second = client.exists('/').then(() => microtasks);
          await first;
          return second;
        });
        await world.sleep(1);
        if (pauses) process.pause();
        await world.sleep(20);
        process.resume();
        return replies;
      });
      return value;
    };
    expect(await microtasksBetween(false)).toBe(100);
    expect(await microtasksBetween(true)).toBeLessThan(10);
  });

  it('breaks connections on reset, and the session continues on another one', async () => {
    await simulate({ seed: 2 }, async (world) => {
      const { client, link } = await connected(world);
      const { sessionId } = client;
      const states: string[] = [];
      client.onState(({ state }) => states.push(state));
      link.reset();
      await world.sleep(1000);
      expect(states).toEqual(['SUSPENDED', 'RECONNECTED']);
      expect(client.sessionId).toBe(sessionId);
      expect(world.watchCount).toBe(0);
    });
  });

  it('can break a connection during its handshake', async () => {
    for (let seed = 1; seed <= 40; seed++) {
      await simulate({ seed }, async (world) => {
        const { process, client, link } = await connected(world);
        link.reset();
        for (let reset = 0; reset < 5; reset++) {
          await world.sleep(world.random.between(0, 3));
          link.reset();
        }
        await world.sleep(2000);
        expect(client.connected).toBe(true);
        await process.run(() => client.close());
        expect(world.sessionIds).toEqual([]);
      });
    }
  });

  it.each(['requests', 'replies', 'both'] as const)(
    'cuts %s: the client loses its session, and the servers expire it',
    async (way) => {
      await simulate({ seed: 3 }, async (world) => {
        const { process, client, link } = await connected(world);
        const states: string[] = [];
        client.onState(({ state }) => states.push(state));
        const heal = link.cut(way);
        await world.sleep(10_000);
        expect(states).toEqual(['SUSPENDED', 'LOST']);
        expect(world.sessionIds).toEqual([]);
        heal();
        heal();
        await process.run(() => client.session());
        expect(states).toEqual(['SUSPENDED', 'LOST', 'CONNECTED']);
      });
    },
  );

  it.each([
    ['requests', []],
    ['replies', ['/node']],
  ] as const)('holds back %s during a cut, and delivers them afterwards', async (way, applied) => {
    await simulate({ seed: 4 }, async (world) => {
      const { process, client, link } = await connected(world);
      const heal = link.cut(way);
      const created = process.run(() => client.create('/node'));
      await world.sleep(100);
      expect(world.znodes().map(({ path }) => path)).toEqual(applied);
      heal();
      expect(await created).toBe('/node');
      expect(world.now).toBeLessThan(110);
    });
  });

  it('is cut until all overlapping cuts have ended', async () => {
    await simulate({ seed: 6 }, async (world) => {
      const { process, client, link } = await connected(world);
      const [first, second] = [link.cut('both'), link.cut('requests')];
      const created = process.run(() => client.create('/node'));
      first();
      await world.sleep(100);
      expect(world.znodes()).toEqual([]);
      second();
      await created;
    });
  });

  it('refuses new connections only', async () => {
    await simulate({ seed: 7 }, async (world) => {
      const { process, client, link } = await connected(world);
      const accept = link.refuseConnections();
      expect(link.refuses).toBe(true);
      expect(await readTime(process, client)).toBeLessThan(10);
      await expect(process.client()).rejects.toThrow('ECONNREFUSED');
      accept();
      link.reset();
      await world.sleep(1000);
      expect(client.connected).toBe(true);
    });
  });

  it('loses a reply whose request was applied', async () => {
    await simulate({ seed: 8 }, async (world) => {
      const { process, client } = await connected(world);
      const other = world.process('b');
      const otherClient = await other.client();
      world.loseReply('create', client);
      await other.run(() => otherClient.create('/other'));
      const error: unknown = await process
        .run(() => client.create('/node'))
        .catch((thrown) => thrown);
      expect(error).toBeInstanceOf(ConnectionError);
      expect(error).toMatchObject({ maybeApplied: true });
      expect(world.znodes().map(({ path }) => path)).toEqual(['/node', '/other']);
      // The next one is not lost, and none after a call of the function that loseReply() returned.
      await process.run(() => client.create('/again'));
      world.loseReply('create', client)();
      await process.run(() => client.create('/last'));
    });
  });
});
