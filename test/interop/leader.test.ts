import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import {
  LeaderLatch,
  LeaderSelector,
  LockTimeoutError,
  type ZkClient,
} from 'nestjs-zookeeper/recipes';
import { aborted, expire, useClients } from '../support/clients.js';
import { eventually } from '../support/eventually.js';
import { nodesUnder } from '../support/recipe-nodes.js';
import { useServer } from '../support/servers.js';
import { Curator } from './curator.js';
import { Referee } from './referee.js';

/** Terms for each contender, all of which it must get. */
const ROUNDS = 20;
/**
 * The minimum number of times that the leadership goes from one side to the other, to prove that
 * both contended.
 */
const HANDOVERS = 10;
/** Milliseconds: limits for events that must occur, and for events that must not. */
const LONG = 60_000;
const SHORT = 100;

const missing = Curator.missing();

describe.skipIf(missing)('an election beside Apache Curator', () => {
  const server = useServer();
  const connect = useClients(server);
  const started: (LeaderLatch | LeaderSelector)[] = [];
  let curator: Curator;
  let client: ZkClient;
  let path: string;

  beforeAll(async () => {
    curator = await Curator.start(server.connectString);
  });
  beforeEach(async () => {
    client = await connect();
    path = server.path('election');
  });
  afterEach(async () => {
    await Promise.all(started.splice(0).map((candidate) => candidate.close()));
    // Curator deletes its nodes in the background.
    await queued(0);
  });
  afterAll(async () => {
    await curator?.[Symbol.asyncDispose]();
  });

  function start<T extends LeaderLatch | LeaderSelector>(candidate: T): T {
    started.push(candidate);
    candidate.start();
    return candidate;
  }

  async function queued(count: number): Promise<void> {
    await eventually(async () => expect(await nodesUnder(client, path)).toHaveLength(count));
  }

  describe('of latches', () => {
    const ours = (from = client, id = 'ours') => start(new LeaderLatch(from, path, { id }));
    const theirs = () => `latch:${path}:theirs`;

    it('moves to the other side with close(), in both directions', async () => {
      const first = ours();
      await first.await({ wait: LONG });
      const waiting = curator.acquire('theirs', theirs());
      await queued(2);
      await first.close();
      expect(await waiting).toBe(true);
      const second = ours();
      await queued(2);
      await expect(second.await({ wait: SHORT })).rejects.toThrow(LockTimeoutError);
      await curator.release('theirs');
      expect(await second.await({ wait: LONG })).toMatchObject({ participantId: 'ours' });
    });

    it('moves to the other side with resign(), and comes back', async () => {
      const latch = ours();
      const { fencingToken } = await latch.await({ wait: LONG });
      const waiting = curator.acquire('theirs', theirs());
      await queued(2);
      await latch.resign();
      expect(await waiting).toBe(true);
      await queued(2);
      expect(latch.hasLeadership).toBe(false);
      await curator.release('theirs');
      expect((await latch.await({ wait: LONG })).fencingToken).toBeGreaterThan(fencingToken);
    });

    it('moves to this library after the Java process was killed', async () => {
      const killed = await Curator.start(server.connectString, 6_000);
      expect(await killed.acquire('theirs', theirs())).toBe(true);
      const latch = ours();
      await queued(2);
      await killed[Symbol.asyncDispose]();
      expect(latch.hasLeadership).toBe(false);
      await latch.await({ wait: LONG });
    });

    it("moves to Curator when this library's session ends, and this library queues again", async () => {
      const latch = ours();
      const { signal } = await latch.await({ wait: LONG });
      const waiting = curator.acquire('theirs', theirs());
      await queued(2);
      await expire(client, server);
      expect(await waiting).toBe(true);
      await aborted(signal);
      await queued(2);
      expect(latch.hasLeadership).toBe(false);
      await curator.release('theirs');
      await latch.await({ wait: LONG });
    });

    it("moves to Curator when this library's node is deleted, and this library queues again", async () => {
      const latch = ours();
      const { signal } = await latch.await({ wait: LONG });
      const waiting = curator.acquire('theirs', theirs());
      await queued(2);
      await client.delete((await latch.leader())!.path);
      expect(await waiting).toBe(true);
      await aborted(signal);
      await queued(2);
      await curator.release('theirs');
      await latch.await({ wait: LONG });
    });

    it('has the same participants and the same leader on both sides', async () => {
      const latch = ours();
      await latch.await({ wait: LONG });
      const waiting = curator.acquire('theirs', theirs());
      await queued(2);
      ours(await connect(), 'straße-7');
      await queued(3);
      expect(await latch.participants()).toMatchObject([
        { id: 'ours', isLeader: true },
        { id: 'theirs', isLeader: false },
        { id: 'straße-7', isLeader: false },
      ]);
      expect(await curator.participants(theirs())).toEqual(['ours:leader', 'theirs', 'straße-7']);
      await latch.close();
      expect(await waiting).toBe(true);
      expect(await latch.leader()).toMatchObject({ id: 'theirs' });
      expect(await curator.participants(theirs())).toEqual(['theirs:leader', 'straße-7']);
      await curator.release('theirs');
    });

    it('never has two leaders, and every contender leads repeatedly', async () => {
      const referee = new Referee();
      const other = await connect();
      await Promise.all(
        [client, client, other, other].flatMap((from) => [
          referee.begun.then(() => leadByLatch(from, path, () => referee.visit('ours'))),
          curator.contend(theirs(), ROUNDS, () => referee.visit('Curator')),
        ]),
      );
      expect(referee.violations).toEqual([]);
      expect(referee.grants).toEqual({ ours: 4 * ROUNDS, Curator: 4 * ROUNDS });
      expect(referee.handovers).toBeGreaterThanOrEqual(HANDOVERS);
    });
  });

  describe('of selectors', () => {
    const theirs = () => `selector:${path}:theirs`;

    /** Leads until the test ends the term. */
    function ours(from = client, id = 'ours') {
      const terms: { id: string; end: () => void }[] = [];
      const selector = start(
        new LeaderSelector(
          from,
          path,
          ({ signal }) =>
            new Promise<void>((resolve) => {
              terms.push({ id, end: resolve });
              signal.addEventListener('abort', () => resolve());
            }),
          { id, autoRequeue: true },
        ),
      );
      return { selector, terms };
    }

    it('alternates between the sides when each takeLeadership returns', async () => {
      const { terms } = ours();
      for (let round = 1; round <= 5; round++) {
        await expect.poll(() => terms.length).toBe(round);
        const waiting = curator.acquire('theirs', theirs());
        await queued(2);
        terms.at(-1)!.end();
        expect(await waiting).toBe(true);
        await queued(2);
        expect(terms).toHaveLength(round);
        await curator.release('theirs');
      }
    });

    it("moves to Curator when this library's selector is interrupted, closed, or loses its session", async () => {
      const { selector, terms } = ours();
      const takeOver = async (round: number, end: () => unknown) => {
        await expect.poll(() => terms.length).toBe(round);
        const waiting = curator.acquire('theirs', theirs());
        await queued(2);
        await end();
        expect(await waiting).toBe(true);
        // The client whose session was expired notices a moment later.
        await expect.poll(() => selector.hasLeadership).toBe(false);
        await curator.release('theirs');
      };
      await takeOver(1, () => selector.interruptLeadership());
      await takeOver(2, () => expire(client, server));
      await takeOver(3, () => selector.close());
    });

    it('moves to this library after the Java process was killed', async () => {
      const killed = await Curator.start(server.connectString, 6_000);
      expect(await killed.acquire('theirs', theirs())).toBe(true);
      const { terms } = ours();
      await queued(2);
      await killed[Symbol.asyncDispose]();
      expect(terms).toHaveLength(0);
      await expect.poll(() => terms.length).toBe(1);
    });

    it('has the same participants and the same leader on both sides', async () => {
      expect(await curator.acquire('theirs', theirs())).toBe(true);
      const { selector, terms } = ours();
      await queued(2);
      expect(await selector.participants()).toMatchObject([
        { id: 'theirs', isLeader: true },
        { id: 'ours', isLeader: false },
      ]);
      expect(await curator.participants(theirs())).toEqual(['theirs:leader', 'ours']);
      await curator.release('theirs');
      await expect.poll(() => terms.length).toBe(1);
      expect(await selector.leader()).toMatchObject({ id: 'ours' });
      expect(await curator.participants(theirs())).toEqual(['ours:leader']);
    });

    it('never has two leaders, and every contender leads repeatedly', async () => {
      const referee = new Referee();
      const other = await connect();
      await Promise.all(
        [client, client, other, other].flatMap((from) => [
          referee.begun.then(() => leadBySelector(from, path, () => referee.visit('ours'))),
          curator.contend(theirs(), ROUNDS, () => referee.visit('Curator')),
        ]),
      );
      expect(referee.violations).toEqual([]);
      expect(referee.grants).toEqual({ ours: 4 * ROUNDS, Curator: 4 * ROUNDS });
      expect(referee.handovers).toBeGreaterThanOrEqual(HANDOVERS);
    });
  });
});

async function leadByLatch(client: ZkClient, path: string, visit: () => Promise<void>) {
  for (let round = 0; round < ROUNDS; round++) {
    const latch = new LeaderLatch(client, path);
    latch.start();
    await latch.await({ wait: LONG });
    await visit();
    await latch.close();
  }
}

function leadBySelector(client: ZkClient, path: string, visit: () => Promise<void>) {
  return new Promise<void>((resolve, reject) => {
    let rounds = 0;
    const selector = new LeaderSelector(
      client,
      path,
      async () => {
        await visit();
        if (++rounds === ROUNDS) selector.close().then(resolve, reject);
      },
      { autoRequeue: true, onError: reject },
    );
    selector.start();
  });
}
