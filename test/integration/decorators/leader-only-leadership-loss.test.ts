import { Injectable } from '@nestjs/common';
import {
  currentTerm,
  LeaderOnly,
  LeaderService,
  MisuseError,
  NotLeaderError,
} from 'nestjs-zookeeper';
import { firstValueFrom, NEVER, Observable, of, toArray } from 'rxjs';
import { describe, expect } from 'vitest';
import { Gate, loseSession, untilLeading, useApps } from '../../support/nest-apps.js';
import { useServer } from '../../support/servers.js';
import { it } from '../../support/virtual-time.js';

const zk = useServer();
const apps = useApps(zk);

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
