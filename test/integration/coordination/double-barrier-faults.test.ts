import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { DistributedDoubleBarrier, ZkClient } from 'nestjs-zookeeper/coordination/recipes';
import { EmbeddedZooKeeper } from 'nestjs-zookeeper/embedded';
import { nodesUnder } from '../../support/recipe-nodes.js';
import { clientDefaults, copiedServer, serverHas } from '../../support/servers.js';

const MEMBERS = 4;
/** Milliseconds. */
const DURATION = 2000;
const LONG = 60_000;
const OPERATIONS = ['create', 'getChildren2', 'exists', 'delete', 'getData', 'sync'] as const;

describe.runIf(process.env.ZK_SERVER === 'embedded' && serverHas.sessionResume)(
  'a double barrier under faults',
  { retry: 0 },
  () => {
    it('lets its members begin and end together while replies are lost and connections break', async () => {
      await using server = await EmbeddedZooKeeper.start({ server: copiedServer, tickTime: 100 });
      const clients = Array.from(
        { length: MEMBERS },
        () =>
          new ZkClient({
            ...clientDefaults,
            connectString: server.connectString,
            sessionTimeout: 6000,
            retry: { type: 'forever', delay: 10 },
          }),
      );
      await Promise.all(clients.map((client) => client.connect()));
      /** The number of calls that each member has begun. */
      const begun = clients.map(() => 0);
      let early = 0;
      const end = performance.now() + DURATION;
      const members = clients.map(async (client, index) => {
        const member = new DistributedDoubleBarrier(client, '/barrier', MEMBERS);
        while (performance.now() < end || Math.max(...begun) > begun[index]!) {
          for (const call of [
            () => member.enter({ wait: LONG }),
            () => member.leave({ wait: LONG }),
          ]) {
            const calls = ++begun[index]!;
            await call();
            if (Math.min(...begun) < calls) early++;
          }
        }
      });
      let over = false;
      const faults = (async () => {
        for (let round = 0; !over; round++) {
          await delay(Math.random() * 15);
          if (round % 2 === 0) await server.dropConnections();
          else await server.faults.dropReply({ op: OPERATIONS[(round >> 1) % OPERATIONS.length]! });
        }
      })();
      await Promise.all(members).finally(() => (over = true));
      await faults;
      expect(early).toBe(0);
      expect(begun[0]).toBeGreaterThan(10);
      expect(await nodesUnder(clients[0]!, '/barrier')).toEqual([]);
      await Promise.all(clients.map((client) => client.close()));
    });
  },
);
