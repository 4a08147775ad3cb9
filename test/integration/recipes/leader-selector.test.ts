import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { runInNewContext } from 'node:vm';
import { describe, expect } from 'vitest';
import {
  BadOptionError,
  CancelLeadershipError,
  currentLease,
  currentTerm,
  IllegalStateError,
  LeaderSelector,
  Mutex,
  NotLeaderError,
  runDetached,
  type Term,
  type ZkClient,
} from 'nestjs-zookeeper/recipes';
import { aborted, expire, useClients } from '../../support/clients.js';
import { Leader, selectorsIn } from '../../support/leaders.js';
import { nodesUnder, untilNothingLeft, observed, untilNodes } from '../../support/recipe-nodes.js';
import { useServer } from '../../support/servers.js';
import { beforeEach, it } from '../../support/virtual-time.js';

const server = useServer();
const connect = useClients(server);

let path: string;
let client: ZkClient;
let other: ZkClient;
beforeEach(async () => {
  path = server.path('leader-selector');
  [client, other] = await Promise.all([connect(), connect()]);
});

describe('LeaderSelector', () => {
  it('leads in the order of arrival, one at a time, until takeLeadership returns', async () => {
    const clients = await Promise.all(Array.from({ length: 3 }, () => connect()));
    const leaders = await selectorsIn(path, clients);
    const tokens: bigint[] = [];
    for (const [index, leader] of leaders.entries()) {
      const term = await leader.leads();
      expect(leaders.map(({ inside }) => inside).indexOf(1)).toBe(index);
      expect(leaders.filter(({ inside }) => inside > 0)).toHaveLength(1);
      expect(leader.selector).toMatchObject({ hasLeadership: true, term });
      tokens.push(term.fencingToken);
      leader.end();
      await aborted(term.signal);
      expect(leader.selector).toMatchObject({ hasLeadership: false, state: 'started' });
    }
    expect(tokens).toEqual(tokens.toSorted((a, b) => (a < b ? -1 : 1)));
    expect(new Set(tokens).size).toBe(3);
    await untilNothingLeft(server, clients[0]!, path);
    expect(leaders.map(({ terms }) => terms.length)).toEqual([1, 1, 1]);
  });

  it('excludes a mutex on its path, as in Curator', async () => {
    const lease = await new Mutex(client, path).acquire();
    const leader = new Leader(client, path, {});
    leader.selector.start();
    await untilNodes(client, path, 2);
    expect(leader.terms).toEqual([]);
    await lease.release();
    const term = await leader.leads();
    expect(term.fencingToken).toBeGreaterThan(lease.fencingToken);
    expect(await new Mutex(client, path).tryAcquire()).toBeUndefined();
  });
});

describe('the term of a takeLeadership', () => {
  it('is the current term of its own call chain only', async () => {
    const seen: (Term | undefined)[] = [];
    const done = new Promise<Term>((resolve) => {
      const selector = new LeaderSelector(
        client,
        server.path('current'),
        async (term) => {
          seen.push(currentTerm());
          await delay(1);
          seen.push(
            currentTerm('jobs'),
            currentTerm('another'),
            runDetached(() => currentTerm()),
          );
          await new Mutex(client, server.path('inner')).withLock(() => seen.push(currentTerm()));
          resolve(term);
        },
        { key: 'jobs' },
      );
      selector.start();
    });
    const term = await done;
    expect(seen).toEqual([term, term, undefined, undefined, term]);
    expect(term.election).toBe('jobs');
    expect(currentTerm()).toBeUndefined();
  });

  it('is still returned by currentTerm() when it is over', async () => {
    const late = new Promise<Term | undefined>((resolve) => {
      const selector = new LeaderSelector(client, server.path('late'), (term) => {
        void aborted(term.signal).then(() => resolve(currentTerm()));
      });
      selector.start();
    });
    expect(await late).toMatchObject({ active: false });
  });

  it('inherits neither the leases nor the term of the caller that started the selector', async () => {
    const seen = new Promise<unknown[]>((resolve) => {
      const take = async (outer: Term) => {
        const selector = new LeaderSelector(client, `${path}/inner`, (inner) => {
          resolve([currentTerm() === inner, currentTerm(outer.election), currentLease()]);
        });
        await new Mutex(client, `${path}/lock`).withLock(async () => {
          selector.start();
          await seen;
        });
      };
      new LeaderSelector(client, `${path}/outer`, take).start();
    });
    expect(await seen).toEqual([true, undefined, undefined]);
  });
});

describe('requeue', () => {
  it('requests one more term while leading or done, not while queued', async () => {
    const [a, b] = await selectorsIn(path, [client, other]);
    await a!.leads();
    expect(b!.selector.requeue()).toBe(false);
    expect(a!.selector.requeue()).toBe(true);
    expect(a!.selector.requeue()).toBe(false);
    await untilNodes(client, path, 2);
    a!.end();
    await b!.leads();
    b!.end();
    await a!.leads(2);
    a!.end();
    await untilNodes(client, path, 0);
    expect(b!.selector.requeue()).toBe(true);
    await b!.leads(2);
    b!.end();
    await untilNothingLeft(server, client, path);
    expect([a!.terms.length, b!.terms.length]).toEqual([2, 2]);
  });

  it('is rejected with autoRequeue, before start() and after close()', async () => {
    const leader = new Leader(await connect(), path, { autoRequeue: true, key: 'jobs' });
    expect(() => leader.selector.requeue()).toThrow(IllegalStateError);
    leader.selector.start();
    await leader.leads();
    expect(leader.selector.requeue()).toBe(false);
    await leader.selector.close();
    expect(() => leader.selector.requeue()).toThrow(IllegalStateError);
    expect(() => leader.selector.requeue()).toThrow(/"jobs".*closed/);
    expect(leader.terms).toHaveLength(1);
  });
});

describe('LeaderSelector: resign()', () => {
  it('resolves when takeLeadership has settled and the node is deleted, and the selector may queue again', async () => {
    const clients = [await connect(), await connect()];
    const [a, b] = await selectorsIn(path, clients, { obeys: false });
    const term = await a!.leads();
    await b!.selector.resign();
    expect(await nodesUnder(clients[1]!, path)).toHaveLength(2);
    expect(b!.selector.interruptLeadership()).toBe(false);
    expect(a!.selector.interruptLeadership()).toBe(true);
    expect(a!.selector.interruptLeadership()).toBe(false);
    const resigning = observed(a!.selector.resign());
    expect(term.signal.reason).toBeInstanceOf(NotLeaderError);
    expect(term.signal.reason).toMatchObject({ message: expect.stringContaining('interrupted') });
    expect(a!.selector).toMatchObject({ hasLeadership: false, term: undefined });
    await clients[1]!.sync(path);
    expect(resigning.settled).toBe(false);
    a!.end();
    await resigning.promise;
    expect(await nodesUnder(clients[1]!, path)).toHaveLength(1);
    expect(a!.selector.requeue()).toBe(true);
    await b!.leads();
    b!.end();
    await a!.leads(2);
    await Promise.all([a!.selector.resign(), a!.end()]);
    await untilNothingLeft(server, clients[0]!, path);
  });

  it('is rejected before start() and after close()', async () => {
    const leader = new Leader(await connect(), server.path('resign-closed'), {});
    expect(leader.selector.interruptLeadership()).toBe(false);
    await expect(leader.selector.resign()).rejects.toThrow(/latent/);
    await leader.selector.close();
    await expect(leader.selector.resign()).rejects.toThrow(IllegalStateError);
  });
});

describe('a takeLeadership that fails', () => {
  const boom = new Error('no disk left');

  it.each([
    ['throws', () => Promise.reject(boom), [boom]],
    [
      'throws at once',
      () => {
        throw boom;
      },
      [boom],
    ],
    ['throws nothing', () => Promise.reject(undefined), [new Error('undefined')]],
    ['cancels', () => Promise.reject(new CancelLeadershipError()), []],
    ['returns', () => undefined, []],
  ] as [string, () => void, unknown[]][])(
    '(%s) is reported unless it cancels, ends the term, and leads again with autoRequeue',
    async (_how, fail, reported) => {
      for (const autoRequeue of [false, true]) {
        const errors: unknown[] = [];
        let terms = 0;
        const take = (term: Term) => (++terms < 3 ? fail() : aborted(term.signal).then(() => {}));
        const selector = new LeaderSelector(client, path, take, {
          autoRequeue,
          onError: (error) => void errors.push(error),
        });
        selector.start();
        await expect.poll(() => terms).toBe(autoRequeue ? 3 : 1);
        if (!autoRequeue) await untilNodes(client, path, 0);
        expect(errors).toEqual(autoRequeue ? [...reported, ...reported] : reported);
        expect(selector.state).toBe('started');
        await selector.close();
        expect(terms).toBe(autoRequeue ? 3 : 1);
      }
      await untilNothingLeft(server, client, path);
    },
  );

  it.each([
    ['its reason', (term: Term) => Promise.reject(term.signal.reason as Error)],
    [
      'an error of another realm, as in Jest',
      (term: Term) =>
        Promise.reject(
          runInNewContext('new Error("", { cause })', { cause: term.signal.reason }) as Error,
        ),
    ],
    ['an error of a timer', (term: Term) => delay(60_000, undefined, { signal: term.signal })],
    [
      'an error of a lock',
      async (term: Term, client: ZkClient, path: string) => {
        const lock = new Mutex(client, `${path}-lock`);
        await using _held = await lock.acquire();
        await runDetached(() => lock.acquire({ signal: term.signal }));
      },
    ],
  ])('caused by the abort of its signal (%s) is not reported', async (how, stop) => {
    const errors: unknown[] = [];
    let inside!: (term: Term) => void;
    const leading = new Promise<Term>((resolve) => (inside = resolve));
    const take = async (term: Term) => {
      inside(term);
      if (how === 'its reason' || how.includes('realm')) await aborted(term.signal);
      await stop(term, client, path);
    };
    const onError = (error: unknown) => void errors.push(error);
    const selector = new LeaderSelector(client, path, take, { onError });
    selector.start();
    await leading;
    selector.interruptLeadership();
    await untilNodes(client, path, 0);
    await selector.close();
    expect(errors).toEqual([]);
  });

  it('with an unrelated error while its signal is aborted is reported', async () => {
    const errors: unknown[] = [];
    const take = async (term: Term) => {
      await aborted(term.signal);
      throw boom;
    };
    const onError = (error: unknown) => void errors.push(error);
    const selector = new LeaderSelector(client, path, take, { onError });
    selector.start();
    await expect.poll(() => selector.hasLeadership).toBe(true);
    await selector.close();
    expect(errors).toEqual([boom]);
  });

  it('ends the leadership even when onError throws too, and is a process warning without onError', async () => {
    const onError = () => {
      throw new Error('onError failed');
    };
    for (const [options, message] of [
      [{ onError }, 'onError failed'],
      [{}, boom.message],
    ] as const) {
      const warning = once(process, 'warning');
      new LeaderSelector(client, path, () => Promise.reject(boom), options).start();
      expect((await warning)[0]).toMatchObject({ message });
      await untilNothingLeft(server, client, path);
    }
  });
});

describe('a session that is lost', () => {
  it('aborts the signal first; takeLeadership may still run when the next selector leads', async () => {
    const clients = [await connect(), await connect()];
    const [a, b] = await selectorsIn(path, clients, { obeys: false, autoRequeue: true });
    const term = await a!.leads();
    const order: string[] = [];
    term.signal.addEventListener('abort', () => void order.push('aborted'));
    b!.selector.onChange((next) => void (next && order.push('next')));
    await expire(clients[0]!, server);
    await b!.leads();
    await aborted(term.signal);
    expect(a!.inside).toBe(1);
    expect(a!.selector.hasLeadership).toBe(false);
    // The selector does not queue again before takeLeadership has returned.
    await clients[0]!.session();
    expect((await b!.selector.participants()).map(({ id }) => id)).toEqual(['selector 1']);
    a!.end();
    await untilNodes(clients[1]!, path, 2);
    b!.end();
    expect((await a!.leads(2)).fencingToken).toBeGreaterThan(term.fencingToken);
    const closing = [a!, b!].map(({ selector }) => selector.close());
    a!.end();
    await Promise.all(closing);
    await untilNothingLeft(server, clients[0]!, path);
  });
});

describe('LeaderSelector: close()', () => {
  it('aborts the signal, and waits for takeLeadership to return', async () => {
    const clients = [await connect(), await connect()];
    const [a, b] = await selectorsIn(path, clients, { obeys: false });
    const term = await a!.leads();
    const closing = observed(a!.selector.close());
    expect(term.active).toBe(false);
    expect(a!.selector).toMatchObject({ state: 'closed', hasLeadership: false });
    await clients[1]!.sync(path);
    expect(closing.settled).toBe(false);
    expect(b!.terms).toEqual([]);
    a!.end();
    await closing.promise;
    expect(await nodesUnder(clients[1]!, path)).toHaveLength(1);
    await b!.leads();
    await a!.selector.close();
    const closed = b!.selector.close();
    b!.end();
    await closed;
    await untilNothingLeft(server, clients[0]!, path);
  });

  it('called by takeLeadership itself does not wait for itself', async () => {
    let through = false;
    const selector = new LeaderSelector(
      client,
      path,
      async () => {
        await selector.close();
        through = true;
      },
      { autoRequeue: true },
    );
    selector.start();
    await expect.poll(() => through).toBe(true);
    expect(selector.state).toBe('closed');
    await untilNothingLeft(server, client, path);
  });

  it('may be called twice or before start(), and is final', async () => {
    const leader = new Leader(client, server.path('close-twice'), {});
    leader.selector.start();
    expect(() => leader.selector.start()).toThrow(IllegalStateError);
    await Promise.all([leader.selector.close(), leader.selector.close()]);
    const never = new Leader(client, server.path('close-never'), {});
    await never.selector.close();
    for (const { selector } of [leader, never]) {
      expect(() => selector.start()).toThrow(IllegalStateError);
      expect(() => selector.requeue()).toThrow(IllegalStateError);
      expect(selector.interruptLeadership()).toBe(false);
    }
  });

  it.each(['leads', 'waits'])('follows from the close of its client while it %s', async (when) => {
    const [first] = await selectorsIn(path, [other]);
    await first!.leads();
    const leader = new Leader(client, path, {});
    leader.selector.start();
    await untilNodes(other, path, 2);
    if (when === 'leads') {
      first!.end();
      await leader.leads();
    }
    await client.close();
    await expect.poll(() => leader.selector.state).toBe('closed');
    expect(leader.inside).toBe(0);
    expect(() => leader.selector.requeue()).toThrow(IllegalStateError);
  });

  it('follows from the next requeue when its client was closed meanwhile', async () => {
    const leader = new Leader(client, path, {});
    leader.selector.start();
    await leader.leads();
    leader.end();
    // Its own client must have been notified: the other client may notice earlier.
    await leader.selector.resign();
    await untilNodes(other, path, 0);
    await client.close();
    leader.selector.requeue();
    await expect.poll(() => leader.selector.state).toBe('closed');
    expect(leader.terms).toHaveLength(1);
  });
});

describe('the options of a LeaderSelector', () => {
  it.each([
    ['takeLeadership', 'run', {}],
    ['autoRequeue', () => {}, { autoRequeue: 'yes' }],
    ['autoRequeue', () => {}, { autoRequeue: null }],
    ['autorequeue', () => {}, { autorequeue: true }],
    ['closeMode', () => {}, { closeMode: 'notify' }],
  ])('is refused where its %s is wrong', async (option, take, options) => {
    const make = () =>
      new LeaderSelector(client, '/election', take as () => void, options as object);
    expect(make).toThrow(BadOptionError);
    expect(make).toThrow(expect.objectContaining({ option }));
  });
});
