import { Injectable } from '@nestjs/common';
import {
  currentTerm,
  LeaderOnly,
  LeaderService,
  MisuseError,
  NotLeaderError,
} from 'nestjs-zookeeper';
import { firstValueFrom, NEVER, Observable, of, toArray } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { Gate, loseSession, untilLeading, useApps } from '../../support/nest-apps.js';
import { useServer } from '../../support/servers.js';

const zk = useServer();
const apps = useApps(zk);

describe('a @LeaderOnly method whose leadership is lost', () => {
  const jobs = (onLost: 'throw' | 'ignore' | undefined, outcome: () => Promise<string>) => {
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
      @LeaderOnly({ election: 'job', onLost, otherwise: 'throw' })
      watch(): Observable<never> {
        void gate.pass();
        return NEVER;
      }
    }
    return { gate, Jobs };
  };

  async function started(
    onLost: 'throw' | 'ignore' | undefined,
    outcome = async () => 'done',
    method: 'run' | 'watch' = 'run',
  ) {
    const { gate, Jobs } = jobs(onLost, outcome);
    const app = await apps.start({ providers: [Jobs] });
    await untilLeading(app.get(LeaderService), 'job');
    const job = app.get(Jobs);
    const ended = method === 'run' ? job.run() : firstValueFrom(job.watch());
    ended.catch(() => {});
    await gate.reached;
    return { app, job, gate, ended };
  }

  it.each(['throw', undefined] as const)(
    'rejects although it has succeeded (%s)',
    async (onLost) => {
      const { app, job, gate, ended } = await started(onLost);
      await loseSession(zk, app.client);
      expect(job.signal!.reason).toBeInstanceOf(NotLeaderError);
      gate.open();
      await expect(ended).rejects.toBe(job.signal!.reason);
    },
  );

  it('has a signal that aborts when the leadership is resigned', async () => {
    const { app, job, gate, ended } = await started('throw');
    const resigned = app.get(LeaderService).resign('job');
    expect(job.signal!.aborted).toBe(true);
    await resigned;
    gate.open();
    await expect(ended).rejects.toThrow(/"job" was given up/);
  });

  it("resolves with onLost: 'ignore'", async () => {
    const { app, gate, ended } = await started('ignore');
    await app.get(LeaderService).resign('job');
    gate.open();
    expect(await ended).toBe('done');
  });

  it('rejects with its own error if it has one', async () => {
    const error = new Error('its own');
    const { app, gate, ended } = await started('throw', () => Promise.reject(error));
    await app.get(LeaderService).resign('job');
    gate.open();
    await expect(ended).rejects.toBe(error);
  });

  it('fails at once if it returns an Observable', async () => {
    const { app, ended } = await started('throw', undefined, 'watch');
    await app.get(LeaderService).resign('job');
    await expect(ended).rejects.toThrow(NotLeaderError);
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
