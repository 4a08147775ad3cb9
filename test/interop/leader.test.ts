import { afterEach, beforeEach, describe, expect, it } from 'vitest';
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
import { Curator, useCurator } from './curator.js';
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

describe('an election beside Apache Curator', () => {
  const server = useServer();
  const connect = useClients(server);
  const curator = useCurator(server);
  const started: (LeaderLatch | LeaderSelector)[] = [];
  let client: ZkClient;
  let path: string;

  beforeEach(async () => {
    client = await connect();
    path = server.path('election');
  });
  afterEach(async () => {
    await Promise.all(started.splice(0).map((candidate) => candidate.close()));
    // Curator deletes its nodes in the background.
    await queued(0);
  });

  function start<T extends LeaderLatch | LeaderSelector>(candidate: T): T {
    started.push(candidate);
    candidate.start();
    return candidate;
  }

  async function queued(count: number): Promise<void> {
    await eventually(async () => expect(await nodesUnder(client, path)).toHaveLength(count));
  }

  /** Starts a candidate of Curator behind this library's. Returns a promise of its leadership. */
  async function follow(theirs: string): Promise<{ leads: Promise<boolean> }> {
    const leads = curator.acquire('theirs', theirs);
    await queued(2);
    return { leads };
  }

  /** Kills a process whose candidate leads, behind which `ours` starts one. */
  async function killLeader(theirs: string, ours: () => Promise<unknown>): Promise<void> {
    const killed = new Curator();
    await killed.start(server.connectString, 6_000);
    expect(await killed.acquire('theirs', theirs)).toBe(true);
    await ours();
    await queued(2);
    await killed[Symbol.asyncDispose]();
  }

  /** Checks that four contenders of each side lead in turns. */
  async function contend(theirs: string, lead: typeof leadByLatch): Promise<void> {
    const referee = new Referee();
    const other = await connect();
    await Promise.all(
      [client, client, other, other].flatMap((from) => [
        referee.begun.then(() => lead(from, path, () => referee.visit('ours'))),
        curator.contend(theirs, ROUNDS, () => referee.visit('Curator')),
      ]),
    );
    expect(referee.violations).toEqual([]);
    expect(referee.grants).toEqual({ ours: 4 * ROUNDS, Curator: 4 * ROUNDS });
    expect(referee.handovers).toBeGreaterThanOrEqual(HANDOVERS);
  }

  describe('of latches', () => {
    const ours = (from = client, id = 'ours') => start(new LeaderLatch(from, path, { id }));
    const theirs = () => `latch:${path}:theirs`;

    it('moves to the other side with close(), in both directions', async () => {
      const first = ours();
      await first.await({ wait: LONG });
      const { leads } = await follow(theirs());
      await first.close();
      expect(await leads).toBe(true);
      const second = ours();
      await queued(2);
      await expect(second.await({ wait: SHORT })).rejects.toThrow(LockTimeoutError);
      await curator.release('theirs');
      expect(await second.await({ wait: LONG })).toMatchObject({ participantId: 'ours' });
    });

    it.each<[string, (latch: LeaderLatch) => Promise<unknown>]>([
      ['this library resigns', (latch) => latch.resign()],
      ["this library's session ends", () => expire(client, server)],
      [
        "this library's node is deleted",
        async (latch) => client.delete((await latch.leader())!.path),
      ],
    ])('moves to Curator when %s, and this library queues again', async (_, end) => {
      const latch = ours();
      const { signal, fencingToken } = await latch.await({ wait: LONG });
      const { leads } = await follow(theirs());
      await end(latch);
      expect(await leads).toBe(true);
      await aborted(signal);
      await queued(2);
      expect(latch.hasLeadership).toBe(false);
      await curator.release('theirs');
      expect((await latch.await({ wait: LONG })).fencingToken).toBeGreaterThan(fencingToken);
    });

    it('moves to this library after the Java process was killed', async () => {
      const latch = new LeaderLatch(client, path);
      await killLeader(theirs(), async () => start(latch));
      expect(latch.hasLeadership).toBe(false);
      await latch.await({ wait: LONG });
    });

    it('has the same participants and the same leader on both sides', async () => {
      const latch = ours();
      await latch.await({ wait: LONG });
      const { leads } = await follow(theirs());
      ours(await connect(), 'straße-7');
      await queued(3);
      expect(await latch.participants()).toMatchObject([
        { id: 'ours', isLeader: true },
        { id: 'theirs', isLeader: false },
        { id: 'straße-7', isLeader: false },
      ]);
      expect(await curator.participants(theirs())).toEqual(['ours:leader', 'theirs', 'straße-7']);
      await latch.close();
      expect(await leads).toBe(true);
      expect(await latch.leader()).toMatchObject({ id: 'theirs' });
      expect(await curator.participants(theirs())).toEqual(['theirs:leader', 'straße-7']);
      await curator.release('theirs');
    });

    it('never has two leaders, and every contender leads repeatedly', () =>
      contend(theirs(), leadByLatch));
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
        const { leads } = await follow(theirs());
        terms.at(-1)!.end();
        expect(await leads).toBe(true);
        await queued(2);
        expect(terms).toHaveLength(round);
        await curator.release('theirs');
      }
    });

    it("moves to Curator when this library's selector is interrupted, closed, or loses its session", async () => {
      const { selector, terms } = ours();
      const takeOver = async (round: number, end: () => unknown) => {
        await expect.poll(() => terms.length).toBe(round);
        const { leads } = await follow(theirs());
        await end();
        expect(await leads).toBe(true);
        // The client whose session was expired notices a moment later.
        await expect.poll(() => selector.hasLeadership).toBe(false);
        await curator.release('theirs');
      };
      await takeOver(1, () => selector.interruptLeadership());
      await takeOver(2, () => expire(client, server));
      await takeOver(3, () => selector.close());
    });

    it('moves to this library after the Java process was killed', async () => {
      let terms: unknown[] = [];
      await killLeader(theirs(), async () => ({ terms } = ours()));
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

    it('never has two leaders, and every contender leads repeatedly', () =>
      contend(theirs(), leadBySelector));
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
