import { Injectable } from '@nestjs/common';
import { ContextIdFactory } from '@nestjs/core';
import {
  currentTerm,
  getLeaderServiceToken,
  LeaderOnly,
  LeaderService,
  MisuseError,
  NotLeaderError,
  type Term,
  ZkModule,
} from 'nestjs-zookeeper';
import { describe, expect } from 'vitest';
import { firstValueFrom, NEVER, Observable, of, toArray } from 'rxjs';
import { Gate } from '../../support/gate.js';
import { loseSession, type TestApp, untilLeading, useApps } from '../../support/nest-apps.js';
import { useServer } from '../../support/servers.js';
import { it } from '../../support/virtual-time.js';

const zk = useServer();
const apps = useApps(zk);

/** Returns two instances of a provider. The first one leads the election `job`. */
async function two<T>(provider: new (...args: never[]) => T) {
  const { one, other } = await apps.leaderAndFollower({ providers: [provider] });
  const made = (app: TestApp) => app.resolve<T>(provider, ContextIdFactory.create());
  return { one, other, leader: await made(one), follower: await made(other) };
}

describe('a @LeaderOnly method of a provider', () => {
  it('runs on the leader, and resolves with undefined on the others', async () => {
    const runs: string[] = [];
    @Injectable()
    class Jobs {
      @LeaderOnly('job')
      async run(on: string): Promise<string | undefined> {
        runs.push(on);
        return on;
      }
    }
    const { one, other, leader, follower } = await two(Jobs);
    expect([await leader.run('one'), await follower.run('other')]).toEqual(['one', undefined]);
    await one.get(LeaderService).resign('job');
    await untilLeading(other.get(LeaderService), 'job');
    expect([await leader.run('one'), await follower.run('other')]).toEqual([undefined, 'other']);
    expect(runs).toEqual(['one', 'other']);
  });

  it('provides its term to its own call chain only', async () => {
    @Injectable()
    class Jobs {
      @LeaderOnly('job')
      async run(): Promise<(Term | undefined)[] | undefined> {
        return [currentTerm(), currentTerm('other'), await this.nested(), await this.again()];
      }
      async nested() {
        await new Promise(setImmediate);
        return currentTerm('job');
      }
      @LeaderOnly('job')
      async again(): Promise<Term | undefined> {
        return currentTerm();
      }
    }
    const { one, leader } = await two(Jobs);
    const term = one.get(LeaderService).term('job');
    expect(await leader.run()).toEqual([term, undefined, term, term]);
    expect(currentTerm()).toBeUndefined();
  });

  it("passes on its result and its error unchanged, keeps this, and rejects on the others with otherwise: 'throw'", async () => {
    const error = new Error('failed');
    const result = { done: true };
    @Injectable()
    class Jobs {
      private readonly answer = result;
      @LeaderOnly({ election: 'job', otherwise: 'throw' })
      async run(fails: boolean) {
        if (fails) throw error;
        return this.answer;
      }
    }
    const { leader, follower } = await two(Jobs);
    expect(await leader.run(false)).toBe(result);
    await expect(leader.run(true)).rejects.toBe(error);
    const rejected = follower.run(false);
    await expect(rejected).rejects.toThrow(NotLeaderError);
    await expect(rejected).rejects.toThrow(/Jobs\.run.*election "job"/);
    await expect(rejected).rejects.toMatchObject({ key: 'job', code: 'NOT_LEADER' });
  });

  it('returns the result of the `otherwise` function, which receives the call', async () => {
    const failure = new Error('of the function');
    @Injectable()
    class Jobs {
      @LeaderOnly({
        election: 'job',
        otherwise: async ({ election, args, context, leader }) => [
          election,
          args,
          context,
          (await leader())?.id,
        ],
      })
      async run(..._args: unknown[]): Promise<unknown> {
        return 'ran';
      }

      @LeaderOnly({
        election: 'job',
        otherwise: () => {
          throw failure;
        },
      })
      async fail() {}
    }
    const { leader, follower } = await two(Jobs);
    expect(await leader.run()).toBe('ran');
    expect(await follower.run(1, 'two')).toEqual(['job', [1, 'two'], undefined, 'one']);
    await expect(follower.fail()).rejects.toBe(failure);
  });

  it('uses the connection that it names', async () => {
    @Injectable()
    class Jobs {
      @LeaderOnly({ election: 'job', connection: 'stock', otherwise: 'throw' })
      async run() {
        return currentTerm()?.path;
      }
    }
    const namespace = zk.path('stock');
    const app = await apps.start({
      imports: [ZkModule.forRoot(apps.options({ name: 'stock', namespace }))],
      providers: [Jobs],
    });
    await untilLeading(app.get<LeaderService>(getLeaderServiceToken('stock')), 'job');
    expect(await app.get(Jobs).run()).toBe(`${namespace}/elections/job`);
    expect(await app.get(LeaderService).participants('job')).toEqual([]);
  });

  it('runs during the terms of a selector of the same election', async () => {
    @Injectable()
    class Jobs {
      @LeaderOnly('job')
      async run(): Promise<bigint | undefined> {
        return currentTerm()?.fencingToken;
      }
    }
    const gate = new Gate();
    let token: bigint | undefined;
    @Injectable()
    class Early {
      constructor(readonly leaders: LeaderService) {
        leaders.select('job', (term) => {
          token = term.fencingToken;
          return gate.pass();
        });
      }
    }
    const app = await apps.start({ providers: [Jobs, Early] });
    await gate.reached;
    expect(await app.get(Jobs).run()).toBe(token);
    gate.open();
    await expect.poll(() => app.get(Jobs).run()).toBeUndefined();
  });
});

describe('a @LeaderOnly method whose leadership is lost', () => {
  const own = new Error('its own');
  const cases: [string, 'throw' | 'ignore' | undefined, () => Promise<unknown>, unknown][] = [
    ['rejects although it has succeeded', 'throw', async () => 'done', NotLeaderError],
    ['rejects by default', undefined, async () => 'done', NotLeaderError],
    ["resolves with onLost: 'ignore'", 'ignore', async () => 'done', 'done'],
    ['rejects with its own error if it has one', 'throw', () => Promise.reject(own), own],
  ];
  it.each(cases)('%s', async (_, onLost, outcome, expected) => {
    const gate = new Gate();
    @Injectable()
    class Jobs {
      signal: AbortSignal | undefined;
      @LeaderOnly({ election: 'job', onLost, otherwise: 'throw' })
      async run() {
        this.signal = currentTerm()!.signal;
        await gate.pass();
        return outcome();
      }
      @LeaderOnly({ election: 'job', otherwise: 'throw' })
      watch(): Observable<never> {
        return NEVER;
      }
    }
    const app = await apps.start({ providers: [Jobs] });
    await untilLeading(app.get(LeaderService), 'job');
    const job = app.get(Jobs);
    const ended = job.run().catch((error: unknown) => error);
    const streamed = expect(firstValueFrom(job.watch())).rejects.toThrow(NotLeaderError);
    await gate.reached;
    await loseSession(zk, app.client);
    // A stream fails at once.
    await streamed;
    expect(job.signal!.reason).toBeInstanceOf(NotLeaderError);
    gate.open();
    expect(await ended).toBe(expected === NotLeaderError ? job.signal!.reason : expected);

    await untilLeading(app.get(LeaderService), 'job');
    const next = job.run().catch((error: unknown) => error);
    const resigned = app.get(LeaderService).resign('job');
    expect(job.signal!.aborted).toBe(true);
    await resigned;
    if (expected === NotLeaderError) expect(String(await next)).toMatch(/"job" was given up/);
    else expect(await next).toBe(expected);
  });
});

describe('a @LeaderOnly method that returns an Observable', () => {
  @Injectable()
  class Feed {
    @LeaderOnly('job')
    list(): Observable<number | undefined> {
      return of(1, currentTerm() && 2);
    }
    @LeaderOnly({ election: 'job', otherwise: 'throw' })
    thrown(): Observable<number> {
      return of(1);
    }
    @LeaderOnly({ election: 'job', otherwise: () => of('a', 'b') })
    other(): Observable<unknown> {
      return of(1);
    }
    @LeaderOnly('job')
    async promised(): Promise<unknown> {
      return of(1);
    }
  }
  const all = (stream: Observable<unknown>) => firstValueFrom(stream.pipe(toArray()));

  it('checks the leadership at each subscription', async () => {
    const { one, other } = await apps.leaderAndFollower({ providers: [Feed] });
    const [leader, follower] = [one.get(Feed), other.get(Feed)];
    const [first, second] = [leader.list(), follower.list()];
    expect([await all(first), await all(second)]).toEqual([[1, 2], []]);
    await one.get(LeaderService).resign('job');
    await untilLeading(other.get(LeaderService), 'job');
    expect([await all(first), await all(second)]).toEqual([[], [1, 2]]);
  });

  it('is empty, fails, or emits the result of the `otherwise` function', async () => {
    const { other } = await apps.leaderAndFollower({ providers: [Feed] });
    const follower = other.get(Feed);
    expect(await all(follower.list())).toEqual([]);
    await expect(all(follower.thrown())).rejects.toThrow(NotLeaderError);
    expect(await all(follower.other())).toEqual(['a', 'b']);
  });

  it('is rejected if it returns a promise of an Observable, which would outlast the term', async () => {
    const { one } = await apps.leaderAndFollower({ providers: [Feed] });
    const leader = one.get(Feed);
    await expect(leader.promised()).rejects.toThrow(MisuseError);
    await expect(leader.promised()).rejects.toThrow(/Feed\.promised.*promised\(…\): Observable/);
  });
});
