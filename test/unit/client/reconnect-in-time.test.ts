import { Mutex, ZkClient } from 'nestjs-zookeeper/recipes';
import { simulate, type SimulatedProcess, type World } from 'nestjs-zookeeper/testing';
import { describe, expect, it } from 'vitest';
import type { Connect } from '../../../lib/client/transport/transport.js';

const SEEDS = process.env.NIGHTLY ? 25 : 5;

describe('a client that knows three servers, of which one is frozen and one unreachable', () => {
  it.each([4000, 6000, 10_000, 30_000])(
    'keeps its lease with a session timeout of %i ms',
    async (sessionTimeout) => {
      const lost: number[] = [];
      for (let seed = 1; seed <= SEEDS; seed++) {
        await simulate({ seed, servers: 5, tickTime: 500 }, async (world) => {
          if (!(await keepsLease(world, sessionTimeout))) lost.push(seed);
        });
      }
      expect(lost).toEqual([]);
    },
  );
});

describe('a client that is paused during its first handshake', () => {
  it('connects by another session if the first one has expired', async () => {
    for (let seed = 1; seed <= SEEDS; seed++) {
      await simulate({ seed }, async (world) => {
        const process = world.process('a');
        const connecting = process.client({ sessionTimeout: 2000 });
        await world.sleep(world.random.between(0, 4));
        process.pause();
        await world.sleep(5000);
        process.resume();
        const client = await connecting;
        expect((await process.run(() => client.session())).alive).toBe(true);
        await process.run(() => client.close());
      });
    }
  });
});

/** Resolves to whether a lease outlives the failure of two servers, one of which may be the server of the client. */
async function keepsLease(world: World, sessionTimeout: number): Promise<boolean> {
  const process = world.process('a');
  const known = world.servers.slice(0, 3);
  const connectString = known.map(({ address }) => address).join(',');
  const client = new ZkClient({ connectString, sessionTimeout }, connectOf(process));
  const lease = await process.run(async () => {
    await client.connect();
    return new Mutex(client, '/lock').acquire();
  });
  await world.sleep(world.random.between(0, sessionTimeout));
  const frozen = world.random.pick(known);
  frozen.pause();
  world.random.pick(known.filter((server) => server !== frozen)).crash({ silently: true });
  if (world.random.chance(0.5)) process.link.reset();
  await world.sleep(sessionTimeout * 2);
  const { held } = lease;
  await process.run(() => client.close());
  return held;
}

/** Returns the function that connects a process to the simulated servers. */
function connectOf(process: SimulatedProcess): Connect {
  let connect: Connect | undefined;
  const builder = {
    overrideProvider: () => ({
      useValue: (ensemble: { connect: Connect }) => {
        ({ connect } = ensemble);
        return builder;
      },
    }),
  };
  process.override(builder);
  return connect!;
}
