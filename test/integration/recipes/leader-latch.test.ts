import { once } from 'node:events';
import { describe, expect, vi } from 'vitest';
import {
  BadOptionError,
  ConnectionError,
  RecipeConflictError,
  IllegalStateError,
  LeaderLatch,
  LockTimeoutError,
  NotLeaderError,
  ShuttingDownError,
  WaitCancelledError,
  type ZkClient,
} from 'nestjs-zookeeper/recipes';
import { Session } from '../../../lib/client/session.js';
import { untilState, useClients, useLinks } from '../../support/clients.js';
import { latchesIn } from '../../support/leaders.js';
import {
  failureOf,
  nodesUnder,
  untilNothingLeft,
  observed,
  untilNodes,
} from '../../support/recipe-nodes.js';
import { serverHas, useServer } from '../../support/servers.js';
import { beforeEach, it } from '../../support/virtual-time.js';

const server = useServer();
const newLink = useLinks(server);
const connect = useClients(server);

let path: string;
let client: ZkClient;
let other: ZkClient;
beforeEach(async () => {
  path = server.path('leader-latch');
  [client, other] = await Promise.all([connect(), connect()]);
});

/** Records the calls of a latch's listeners as `leads` or `not`. */
function recordCalls(latch: LeaderLatch): string[] {
  const words: string[] = [];
  latch.onChange((term) => void words.push(term ? 'leads' : 'not'));
  return words;
}

describe('LeaderLatch', () => {
  it.runIf(serverHas.containers)(
    'names its node as Curator does, with its id as the data, under a container',
    async () => {
      const latch = new LeaderLatch(client, path, { id: 'ärger ✓ 日本' });
      latch.start();
      await latch.await();
      const [node] = await nodesUnder(client, path);
      expect(node).toMatch(/^_c_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}-latch-0000000000$/);
      const { data, stat } = await client.get(`${path}/${node}`);
      expect(data).toEqual(Buffer.from('ärger ✓ 日本'));
      expect(stat.ephemeralOwner).toBe((await client.session()).id);
      await latch.close();
      // Only a container is reaped.
      await expect.poll(() => client.exists(path)).toBeUndefined();
    },
  );

  it('gives the term its participant id, election and start time', async () => {
    const latch = new LeaderLatch(client, path, { id: 'me', key: 'billing' });
    expect(latch).toMatchObject({ id: 'me', key: 'billing', path, state: 'latent' });
    const before = Date.now();
    latch.start();
    expect(latch).toMatchObject({ state: 'started', hasLeadership: false, term: undefined });
    const term = await latch.await();
    expect(term).toBe(latch.term);
    expect(term).toMatchObject({ election: 'billing', path, participantId: 'me', active: true });
    expect(term.leaderSince.getTime()).toBeGreaterThanOrEqual(before);
    expect(term.leaderSince.getTime()).toBeLessThanOrEqual(Date.now());
    const closed = latch.close();
    expect(latch).toMatchObject({ state: 'closed', hasLeadership: false, term: undefined });
    expect(term.active).toBe(false);
    expect(term.signal.reason).toBeInstanceOf(NotLeaderError);
    expect(term.signal.reason).toMatchObject({ code: 'NOT_LEADER', key: 'billing' });
    await closed;
  });

  it('queues again behind the others after it resigns', async () => {
    const [a, b] = await latchesIn(path, await connect(), await connect());
    const first = await a!.await();
    const [leader] = await a!.participants();
    const resigned = a!.resign();
    expect(a!.hasLeadership).toBe(false);
    await resigned;
    const left = (await a!.participants()).map((each) => each.path);
    expect(left).not.toContain(leader!.path);
    const second = await b!.await();
    await untilNodes(a!.client, path, 2);
    await b!.resign();
    const third = await a!.await();
    expect(third).not.toBe(first);
    expect(first.fencingToken).toBeLessThan(second.fencingToken);
    expect(second.fencingToken).toBeLessThan(third.fencingToken);
    await Promise.all([a!.close(), b!.close()]);
    await untilNothingLeft(server, a!.client, path);
  });

  it('ignores resign() while it does not lead, and rejects it and await() before start()', async () => {
    const [a, b] = await latchesIn(path, await connect(), await connect());
    const term = await a!.await();
    const [, before] = await b!.participants();
    await b!.resign();
    const [, after] = await b!.participants();
    expect(after!.path).toBe(before!.path);
    expect(term.active).toBe(true);
    const latent = new LeaderLatch(b!.client, path);
    expect(await failureOf(latent.resign())).toBeInstanceOf(IllegalStateError);
    const error = await failureOf(latent.await());
    expect(error).toBeInstanceOf(IllegalStateError);
    expect((error as Error).message).toContain('not started');
  });

  it('may be started before the client has connected', async () => {
    const client = server.newClient({ sessionTimeout: 4000 });
    const errors: unknown[] = [];
    const latch = new LeaderLatch(client, path, { onError: (error) => void errors.push(error) });
    latch.start();
    await expect.poll(() => errors).toEqual([expect.any(ConnectionError)]);
    await client.connect();
    await expect.poll(() => latch.hasLeadership).toBe(true);
    await latch.close();
  });
});

describe('the participants of an election', () => {
  it('are listed in the order in which they will lead, with their ids', async () => {
    const clients = await Promise.all([connect(), connect(), connect()]);
    const latches = await latchesIn(path, ...clients);
    await latches[0]!.await();
    const participants = await latches[2]!.participants();
    expect(participants.map(({ id, isLeader }) => [id, isLeader])).toEqual([
      ['latch 0', true],
      ['latch 1', false],
      ['latch 2', false],
    ]);
    const [first] = participants;
    expect(first!.session).toBe((await clients[0]!.session()).id);
    expect(Math.abs(first!.since.getTime() - Date.now())).toBeLessThan(60_000);
    expect(await latches[1]!.leader()).toEqual(first);
  });

  it('are an empty list when there are no candidates, and there is no leader', async () => {
    const latch = new LeaderLatch(client, path);
    expect(await latch.participants()).toEqual([]);
    expect(await latch.leader()).toBeUndefined();
    await client.ensureContainers(path);
    await client.create(`${path}/notes`, '');
    expect(await latch.leader()).toBeUndefined();
  });

  it('may be nodes of Curator: the sequence number decides, not the name before it', async () => {
    await client.ensureContainers(path);
    const zoë = '_c_ffffffff-8b86-4011-b42d-00cf4fc964ff-latch-0000000007';
    const late = '_c_00000000-8b86-4011-b42d-00cf4fc964ff-latch-0000000008';
    await client.create(`${path}/${late}`, '', { mode: 'ephemeral' });
    await client.create(`${path}/${zoë}`, 'Zoë', { mode: 'ephemeral' });
    const latch = new LeaderLatch(client, path);
    expect((await latch.participants()).map(({ id }) => id)).toEqual(['Zoë', '']);
    expect(await latch.leader()).toMatchObject({ id: 'Zoë', path: `${path}/${zoë}` });
  });

  it('skip one that leaves while the list is read', async () => {
    const [first, second] = await latchesIn(path, other, other);
    const [node] = (await first!.participants()).map(({ path: at }) => at);
    const { get } = client;
    client.get = async (at) => {
      if (at === node) await other.delete(at).catch(() => undefined);
      return get.call(client, at);
    };
    expect(await new LeaderLatch(client, path).leader()).toMatchObject({ id: second!.id });
  });
});

describe('LeaderLatch: await()', () => {
  it('times out at its deadline, and the candidate stays in the queue', async () => {
    const [a, b] = await latchesIn(path, await connect(), await connect());
    const start = performance.now();
    const error = await failureOf(b!.await({ wait: 100 }));
    expect(error).toBeInstanceOf(LockTimeoutError);
    expect(error).toMatchObject({ code: 'TIMEOUT', key: path });
    expect(performance.now() - start).toBeGreaterThanOrEqual(99);
    expect(await failureOf(b!.await({ wait: 0 }))).toBeInstanceOf(LockTimeoutError);
    await a!.close();
    await b!.await();
  });

  it('rejects when its signal aborts, with the reason as the cause, and when the latch is closed', async () => {
    const [, b] = await latchesIn(path, await connect(), await connect());
    const controller = new AbortController();
    const { signal } = controller;
    const [waiting, other] = [failureOf(b!.await({ signal })), failureOf(b!.await())];
    const reason = new Error('never mind');
    controller.abort(reason);
    expect(await waiting).toBeInstanceOf(WaitCancelledError);
    expect(await waiting).toMatchObject({ cause: reason, key: path });
    expect(await failureOf(b!.await({ signal }))).toBeInstanceOf(WaitCancelledError);
    await b!.close();
    expect(await other).toBeInstanceOf(IllegalStateError);
    expect(await other).toMatchObject({ code: 'ILLEGAL_STATE', key: path });
  });

  it('may be called several times at once', async () => {
    const [a, b] = await latchesIn(path, await connect(), await connect());
    const warnings: Error[] = [];
    const warn = (warning: Error) => void warnings.push(warning);
    process.on('warning', warn);
    const waits = Array.from({ length: 30 }, () => b!.await({ wait: 20_000 }));
    await a!.close();
    const terms = await Promise.all(waits);
    process.off('warning', warn);
    expect(new Set(terms).size).toBe(1);
    expect(warnings).toEqual([]);
  });

  it('rejects with the error that blocks the latch, which still retries', async () => {
    const link = await newLink();
    const client = await connect({
      connectString: link.connectString,
      retry: { type: 'fixed', delay: 10, maxRetries: 2 },
    });
    const leader = new LeaderLatch(other, path);
    leader.start();
    await leader.await();
    await link.down();
    await untilState(client, 'SUSPENDED');
    const errors: unknown[] = [];
    const latch = new LeaderLatch(client, path, { onError: (error) => void errors.push(error) });
    latch.start();
    expect(await failureOf(latch.await())).toBeInstanceOf(ConnectionError);
    expect(errors[0]).toBeInstanceOf(ConnectionError);
    await link.up();
    await untilNodes(client, path, 2);
    // It waits behind the leader, and the error is over.
    expect(await failureOf(latch.await({ wait: 20 }))).toBeInstanceOf(LockTimeoutError);
    await leader.close();
    await expect.poll(() => latch.hasLeadership).toBe(true);
    await latch.close();
  });

  it('rejects on a path with nodes of another recipe, leaves nothing there, and ignores an onError that throws', async () => {
    await client.ensureContainers(path);
    const theirs = await client.create(`${path}/_c_x-lock-`, '', { mode: 'ephemeral-sequential' });
    const warning = once(process, 'warning');
    const latch = new LeaderLatch(client, path, {
      onError: () => {
        throw new Error('onError failed');
      },
    });
    latch.start();
    expect(await failureOf(latch.await())).toBeInstanceOf(RecipeConflictError);
    expect((await warning)[0]).toMatchObject({ message: 'onError failed' });
    await untilNodes(client, path, 1);
    expect(await failureOf(latch.leader())).toBeInstanceOf(RecipeConflictError);
    await client.delete(theirs);
    await expect.poll(() => latch.hasLeadership).toBe(true);
  });
});

describe('a listener of a LeaderLatch', () => {
  it('that resigns hides the whole term from the listeners behind it', async () => {
    const [a, b] = await latchesIn(path, await connect(), await connect());
    b!.onChange((term) => void (term && b!.resign()));
    const words = recordCalls(b!);
    await a!.resign();
    await expect.poll(() => a!.hasLeadership).toBe(true);
    expect(words).toEqual([]);
  });

  it.each([
    ['silent', []],
    ['notify', ['not']],
  ] as const)('is called for a close with the mode %s as %j', async (mode, expected) => {
    const path = server.path(mode);
    for (const given of ['option', 'argument']) {
      const latch = new LeaderLatch(client, path, given === 'option' ? { closeMode: mode } : {});
      latch.start();
      await latch.await();
      const words = recordCalls(latch);
      const idle = new LeaderLatch(client, path, { closeMode: 'notify' });
      const wordsOfIdle = recordCalls(idle);
      idle.start();
      await idle.close();
      await (given === 'option' ? latch.close() : latch.close(mode));
      expect(words).toEqual(expected);
      expect(wordsOfIdle).toEqual([]);
    }
  });
});

describe('LeaderLatch: close()', () => {
  it('leaves no term at any moment between the reply that it leads and the term', async () => {
    await client.ensureContainers(path);
    const { children } = Session.prototype;
    for (let turns = 0; turns < 12; turns++) {
      const latch = new LeaderLatch(client, path);
      let closed: Promise<void> | undefined;
      const closeSoon = async () => {
        for (let turn = 0; turn < turns; turn++) await undefined;
        closed = latch.close();
      };
      const listing = vi.spyOn(Session.prototype, 'children').mockImplementation(async function (
        this: Session,
        ...args: Parameters<typeof children>
      ) {
        const answer = await children.apply(this, args);
        void closeSoon();
        return answer;
      } as typeof children);
      latch.start();
      await expect.poll(() => closed !== undefined, { interval: 1 }).toBe(true);
      listing.mockRestore();
      await closed;
      expect(latch.hasLeadership).toBe(false);
    }
    await untilNothingLeft(server, client, path);
  });

  it.each([
    ['leads', 0],
    ['waits', 1],
  ])('of a latch that %s resolves when its node is deleted', async (_state, which) => {
    const link = await newLink();
    const client = await connect({ connectString: link.connectString });
    const latches = await latchesIn(path, ...(which === 0 ? [client, other] : [other, client]));
    await latches[0]!.await();
    await link.holdAll();
    const closing = observed(latches[which]!.close());
    expect(await nodesUnder(other, path)).toHaveLength(2);
    expect(closing.settled).toBe(false);
    await link.resume();
    await closing.promise;
    expect(await nodesUnder(other, path)).toHaveLength(1);
    await latches[1 - which]!.close();
    await untilNothingLeft(server, other, path);
  });

  it('may be called twice or before start(), and is final', async () => {
    const [latch] = await latchesIn(path, client);
    expect(() => latch!.start()).toThrow(/was started/);
    await latch!.await();
    await Promise.all([latch!.close(), latch!.close('notify')]);
    await latch!.close();
    const never = new LeaderLatch(client, path);
    await never.close();
    for (const closed of [latch!, never]) {
      expect(closed.state).toBe('closed');
      expect(() => closed.start()).toThrow(IllegalStateError);
      expect(await failureOf(closed.await())).toBeInstanceOf(IllegalStateError);
      expect(await failureOf(closed.resign())).toBeInstanceOf(IllegalStateError);
      expect(await closed.participants()).toEqual([]);
    }
    await untilNothingLeft(server, client, path);
  });

  it.runIf(serverHas.sessionResume)('does not wait for an unreachable server', async () => {
    const link = await newLink();
    const client = await connect({
      connectString: link.connectString,
      retry: { type: 'forever', delay: 20 },
    });
    await client.ensureContainers(path);
    await link.holdReplies();
    const latch = new LeaderLatch(client, path);
    latch.start();
    // The node exists, but the reply is lost.
    await untilNodes(other, path, 1);
    await link.down();
    await untilState(client, 'SUSPENDED');
    const closing = observed(latch.close());
    await expect.poll(() => closing.settled).toBe(true);
    expect(client.state).toBe('SUSPENDED');
    await link.up();
    await untilState(client, 'RECONNECTED');
    await untilNothingLeft(server, other, path);
  });

  it('follows from the close of its client, whether it leads or waits', async () => {
    const [a, b] = await latchesIn(path, client, client);
    const term = await a!.await();
    const words = recordCalls(a!);
    const waiting = failureOf(b!.await());
    await client.close();
    expect(await waiting).toBeInstanceOf(ShuttingDownError);
    await expect.poll(() => [a!.state, b!.state]).toEqual(['closed', 'closed']);
    expect(term.active).toBe(false);
    expect(words).toEqual(['not']);
    expect(await failureOf(a!.await())).toBeInstanceOf(ShuttingDownError);
    await untilNothingLeft(server, other, path);
  });
});

describe('the options of a LeaderLatch', () => {
  it.each([
    ['id', { id: 'ä'.repeat(2049) }],
    ['id', { id: null }],
    ['id', { id: '' }],
    ['key', { key: '' }],
    ['onError', { onError: 'log' }],
    ['closeMode', { closeMode: 'loud' }],
    ['closemode', { closemode: 'notify' }],
    ['autoRequeue', { autoRequeue: true }],
  ])('is refused where its %s is wrong', async (option, options) => {
    const make = () => new LeaderLatch(client, '/election', options as object);
    expect(make).toThrow(BadOptionError);
    expect(make).toThrow(expect.objectContaining({ option }));
  });

  it.each(['orders', 7])('is refused where the path is %j', async (path) => {
    expect(() => new LeaderLatch(client, path as string)).toThrow(BadOptionError);
  });

  it('are checked by close() and await() too', async () => {
    const latch = new LeaderLatch(await connect(), server.path('bad'));
    expect(await failureOf(latch.close('loud' as 'silent'))).toBeInstanceOf(BadOptionError);
    expect(latch.state).toBe('latent');
    expect(await failureOf(latch.await({ wait: -1 }))).toBeInstanceOf(BadOptionError);
  });

  it('accept an id of 4,096 bytes, and default to the host and process', async () => {
    expect(new LeaderLatch(client, path).id).toMatch(new RegExp(`:${process.pid}$`));
    const id = 'ä'.repeat(2048);
    const latch = new LeaderLatch(client, path, { id });
    latch.start();
    await latch.await();
    expect(await latch.leader()).toMatchObject({ id, isLeader: true });
    await latch.close();
  });
});

describe('a LeaderLatch whose connection breaks', () => {
  it('loses the leadership at once under the policy "standard" and queues again', async () => {
    const link = await newLink();
    const client = await connect({ connectString: link.connectString, policy: 'standard' });
    const [a, b] = await latchesIn(path, client, await connect());
    const term = await a!.await();
    const words = recordCalls(a!);
    const suspended = untilState(client, 'SUSPENDED').then(() => term.active);
    await link.down();
    expect(await suspended).toBe(false);
    expect(a!.hasLeadership).toBe(false);
    expect(words).toEqual(['not']);
    expect(term.signal.reason).toMatchObject({ code: 'NOT_LEADER' });
    await link.up();
    const next = await b!.await();
    await untilNodes(b!.client, path, 2);
    expect((await b!.participants()).map(({ id }) => id)).toEqual(['latch 1', 'latch 0']);
    await b!.close();
    expect((await a!.await()).fencingToken).toBeGreaterThan(next.fencingToken);
    await a!.close();
  });

  it.runIf(serverHas.sessionResume)('keeps its place in the queue while it waits', async () => {
    const link = await newLink();
    const client = await connect({ connectString: link.connectString, policy: 'standard' });
    const [a, b] = await latchesIn(path, await connect(), client);
    const [, before] = await a!.participants();
    await link.cut();
    await untilState(client, 'RECONNECTED');
    await a!.close();
    await b!.await();
    expect((await b!.leader())!.path).toBe(before!.path);
    await b!.close();
  });
});
