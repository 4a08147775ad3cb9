import { Injectable, Scope } from '@nestjs/common';
import { ContextIdFactory } from '@nestjs/core';
import { Cron, Interval, ScheduleModule } from '@nestjs/schedule';
import {
  currentTerm,
  getLeaderServiceToken,
  LeaderOnly,
  LeaderService,
  NotLeaderError,
  type Term,
  ZkModule,
} from 'nestjs-zookeeper';
import { describe, expect } from 'vitest';
import { Gate, type TestApp, untilLeading, useApps } from '../../support/nest-apps.js';
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

  it('may belong to a request-scoped provider', async () => {
    @Injectable({ scope: Scope.REQUEST })
    class Jobs {
      @LeaderOnly({ election: 'job', otherwise: 'throw' })
      async run() {
        return currentTerm()?.participantId;
      }
    }
    const { leader, follower } = await two(Jobs);
    expect(await leader.run()).toBe('one');
    await expect(follower.run()).rejects.toThrow(NotLeaderError);
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

describe('a @LeaderOnly job', () => {
  it('runs on the leader, below or above @Interval and @Cron', async () => {
    const ran = new Set<string>();
    const visit = (job: string) => void ran.add(`${job} ${currentTerm()?.participantId}`);
    const jobs = () => {
      @Injectable()
      class Jobs {
        @Interval(10)
        @LeaderOnly('job')
        async above(): Promise<void> {
          visit('above');
        }
        @LeaderOnly('job')
        @Interval(10)
        async below(): Promise<void> {
          visit('below');
        }
        @Cron('* * * * * *')
        @LeaderOnly('job')
        async cronAbove(): Promise<void> {
          visit('cron above');
        }
        @LeaderOnly('job')
        @Cron('* * * * * *')
        async cronBelow(): Promise<void> {
          visit('cron below');
        }
      }
      return { imports: [ScheduleModule.forRoot()], providers: [Jobs] };
    };
    const one = await apps.start(jobs(), { participantId: 'one' });
    await untilLeading(one.get(LeaderService), 'job');
    await apps.start(jobs(), { participantId: 'other' });
    const expected = ['above one', 'below one', 'cron above one', 'cron below one'];
    await expect.poll(() => [...ran].sort()).toEqual(expected);
  });
});
