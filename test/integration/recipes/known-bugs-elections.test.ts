import { describe, expect } from 'vitest';
import { LeaderLatch, type Term } from 'nestjs-zookeeper/recipes';
import type { ZkClient } from '../../../lib/client/index.js';
import { aborted, expire, untilState, useClients, useLinks } from '../../support/clients.js';
import { latchesIn, Leader, selectorsIn } from '../../support/leaders.js';
import { nodesUnder, untilNothingLeft, untilNodes } from '../../support/recipe-nodes.js';
import { serverHas, useServer } from '../../support/servers.js';
import { afterEach, beforeEach, currentWorld, it, MOMENTS } from '../../support/virtual-time.js';

// Bugs of Curator's leader recipes, each with the number of its issue.

const server = useServer();
const newLink = useLinks(server);
const connect = useClients(server);

let path: string;
let client: ZkClient;
let other: ZkClient;
beforeEach(async () => {
  path = server.path('known-bugs-elections');
  [client, other] = await Promise.all([connect(), connect()]);
});
/** Every test leaves neither znodes nor watches. */
afterEach(async () => untilNothingLeft(server, await connect(), path));

/** Deletes a path and everything below it. */
async function vanish(client: ZkClient, path: string): Promise<void> {
  for (const node of await nodesUnder(client, path)) await client.delete(`${path}/${node}`);
  // The container is empty and may have been reaped already.
  await client.delete(path).catch((error: unknown) => {
    expect(error).toMatchObject({ code: 'NO_NODE' });
  });
}

async function closeAll(...latches: LeaderLatch[]): Promise<void> {
  await Promise.all(latches.map((latch) => latch.close()));
}

describe('leader latch', () => {
  it('CURATOR-604, 696: does not lead by a node of the previous session', async () => {
    const [a, b] = await latchesIn(path, other, client);
    await a!.await();
    const before = (await client.session()).id;
    await expire(client, server);
    await expect.poll(async () => (await client.session()).id).not.toBe(before);
    await a!.close();
    await b!.await();
    const leader = await b!.leader();
    expect(leader!.session).toBe((await client.session()).id);
    expect(await nodesUnder(other, path)).toHaveLength(1);
    await b!.close();
  });

  it('CURATOR-696: does not lead by its own old node that still exists', async () => {
    const link = await newLink();
    const client = await connect({ connectString: link.connectString, sessionTimeout: 6000 });
    const [latch] = await latchesIn(path, client);
    const term = await latch!.await();
    const [old] = await nodesUnder(other, path);
    const next = new Promise<Term>((resolve) => {
      latch!.onChange((begun) => void (begun && resolve(begun)));
    });
    await link.down();
    await aborted(term.signal);
    // The session is over for the client alone.
    expect(await nodesUnder(other, path)).toEqual([old]);
    await link.up();
    const { fencingToken } = await next;
    expect(await nodesUnder(other, path)).not.toContain(old);
    expect((await latch!.leader())!.session).toBe((await client.session()).id);
    expect(fencingToken).toBeGreaterThan(term.fencingToken);
    await latch!.close();
  });

  it('CURATOR-653: interleaved resignations cause neither two leaders nor a wrong state', async () => {
    const clients = await Promise.all([connect(), connect()]);
    const latches = await latchesIn(path, ...clients, ...clients);
    let most = 0;
    let terms = 0;
    for (const latch of latches) {
      latch.onChange((term) => {
        if (!term) return;
        most = Math.max(most, latches.filter(({ hasLeadership }) => hasLeadership).length);
        // While the previous leader is still queueing again.
        if (++terms < 20) void latch.resign();
      });
    }
    await latches[0]!.resign();
    await expect.poll(() => terms).toBe(20);
    expect(most).toBe(1);
    await untilNodes(clients[0]!, path, 4);
    const leading = latches.filter(({ hasLeadership }) => hasLeadership);
    expect(leading.map(({ id }) => id)).toEqual([(await latches[0]!.leader())!.id]);
    await closeAll(...latches);
  });

  it('CURATOR-645: deleted nodes are created once more, not repeatedly', async () => {
    const [operator, ...clients] = await Promise.all([connect(), connect(), connect()]);
    // Not a container, because it may be empty for a moment and its sequence numbers must continue.
    await operator!.create(path);
    const latches = await latchesIn(path, ...clients, ...clients);
    const { signal } = await latches[0]!.await();
    const before = await nodesUnder(operator!, path);
    await Promise.all(before.map((node) => operator!.delete(`${path}/${node}`)));
    const message = expect.stringContaining('deleted');
    expect(await aborted(signal)).toMatchObject({ message });
    await untilNodes(operator!, path, 4);
    await expect.poll(() => latches.filter(({ hasLeadership }) => hasLeadership)).toHaveLength(1);
    const after = await nodesUnder(operator!, path);
    const sequences = after.map((node) => Number(node.slice(-10))).sort((a, b) => a - b);
    expect(sequences).toEqual([4, 5, 6, 7]);
    const leading = latches.find(({ hasLeadership }) => hasLeadership);
    expect((await latches[0]!.leader())!.id).toBe(leading!.id);
    await closeAll(...latches);
  });

  it.runIf(serverHas.sessionResume).each(['leads', 'waits'])(
    'CURATOR-724: recovers if its path is deleted while it %s',
    async (role) => {
      const link = await newLink();
      const client = await connect({ connectString: link.connectString, sessionTimeout: 10_000 });
      const latches = await latchesIn(path, ...(role === 'leads' ? [client] : [other, client]));
      const latch = latches.at(-1)!;
      const first = await latches[0]!.await();
      await link.down();
      await untilState(client, 'SUSPENDED');
      if (role === 'waits') await latches[0]!.close();
      await vanish(other, path);
      await link.up();
      await untilState(client, 'RECONNECTED');
      if (role === 'leads') await aborted(first.signal);
      const term = await latch.await();
      expect(term.fencingToken).toBeGreaterThan(first.fencingToken);
      expect((await latch.leader())!.id).toBe(latch.id);
      await latch.close();
    },
  );

  it.each(serverHas.sessionResume ? ['leads', 'is closed'] : ['is closed'])(
    'CURATOR-45, 79, 18: leaves no second node if the reply to its create is lost and it then %s',
    async (then) => {
      const link = await newLink();
      const client = await connect({ connectString: link.connectString });
      await client.ensureContainers(path);
      await link.holdReplies();
      const latch = new LeaderLatch(client, path);
      latch.start();
      await untilNodes(other, path, 1);
      const nodes = await nodesUnder(other, path);
      const closed = then === 'leads' ? undefined : latch.close();
      await link.cut();
      if (then === 'leads') {
        await latch.await();
        expect(await nodesUnder(other, path)).toEqual(nodes);
      }
      await (closed ?? latch.close());
    },
  );
});

describe('leader selector', () => {
  it('CURATOR-518: queues again by itself, however often it is interrupted', async () => {
    const [leader] = await selectorsIn(path, [client], { autoRequeue: true });
    await leader!.leads(1);
    for (const moment of MOMENTS) {
      leader!.selector.interruptLeadership();
      await currentWorld().sleep(moment);
      leader!.selector.interruptLeadership();
      await leader!.leads(leader!.terms.length + 1);
    }
    await leader!.selector.close();
  });

  it('CURATOR-671: accepts a requeue as soon as it no longer leads', async () => {
    const leader = new Leader(client, path, { obeys: false });
    const accepted: boolean[] = [];
    const remove = leader.selector.onChange((term) => {
      if (!term) accepted.push(leader.selector.requeue());
    });
    leader.selector.start();
    await leader.leads(1);
    leader.end();
    await leader.leads(2);
    leader.selector.interruptLeadership();
    expect(leader.inside).toBe(1);
    leader.end();
    await leader.leads(3);
    await expire(client, server);
    await aborted(leader.terms[2]!.signal);
    leader.end();
    await leader.leads(4);
    expect(accepted).toEqual([true, true, true]);
    remove();
    const closed = leader.selector.close();
    leader.end();
    await closed;
  });
});
