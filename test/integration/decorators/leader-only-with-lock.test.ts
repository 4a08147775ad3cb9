import { Controller, Get, Param } from '@nestjs/common';
import {
  currentLease,
  currentTerm,
  DistributedLock,
  LeaderOnly,
  LeaderService,
  LockService,
  NotLeaderError,
} from 'nestjs-zookeeper';
import { firstValueFrom, Observable, of } from 'rxjs';
import { describe, expect } from 'vitest';
import { get } from '../../support/http-calls.js';
import { type TestApp, untilLeading, untilQueued, useApps } from '../../support/nest-apps.js';
import { useServer } from '../../support/servers.js';
import { it } from '../../support/virtual-time.js';

const apps = useApps(useServer());

describe('a method with @LeaderOnly and @DistributedLock', () => {
  @Controller()
  class Jobs {
    ran = 0;

    @Get('leader/fixed')
    @LeaderOnly('job')
    @DistributedLock('goods', { wait: 0 })
    async leaderFirst(): Promise<unknown> {
      return [currentTerm()?.active, currentLease()?.key];
    }

    @Get('leader/:id')
    @LeaderOnly('job')
    @DistributedLock((id) => id, { wait: 0 })
    async leaderFirstByArgument(@Param('id') _id: string): Promise<unknown> {
      return [currentTerm()?.active, currentLease()?.key];
    }

    @Get('lock/fixed')
    @DistributedLock('goods', { wait: 0 })
    @LeaderOnly('job')
    async lockFirst(): Promise<unknown> {
      return [currentTerm()?.active, currentLease()?.key];
    }

    @Get('lock/:id')
    @DistributedLock((id) => id, { wait: 0 })
    @LeaderOnly('job')
    async lockFirstByArgument(@Param('id') _id: string): Promise<unknown> {
      return [currentTerm()?.active, currentLease()?.key];
    }

    @Get('waiting/fixed')
    @LeaderOnly({ election: 'job', otherwise: 'throw' })
    @DistributedLock('goods')
    async waiting(): Promise<number> {
      return ++this.ran;
    }

    @Get('waiting/:id')
    @LeaderOnly({ election: 'job', otherwise: 'throw' })
    @DistributedLock((id) => id)
    async waitingByArgument(@Param('id') _id: string): Promise<number> {
      return ++this.ran;
    }

    @LeaderOnly({ election: 'job', otherwise: 'throw' })
    @DistributedLock('goods')
    watching(): Observable<number> {
      return of(++this.ran);
    }
  }
  const paths = ['/leader/fixed', '/leader/goods', '/lock/fixed', '/lock/goods'];

  it('runs as the leader and with the lock, in either order', async () => {
    const { one, other } = await apps.leaderAndFollower({ controllers: [Jobs] });
    expect(await one.get(Jobs).leaderFirst()).toEqual([true, 'goods']);
    expect(await one.get(Jobs).lockFirst()).toEqual([true, 'goods']);
    for (const path of paths) {
      expect((await get(one, path)).body).toEqual([true, 'goods']);
      expect((await get(other, path)).status).toBe(503);
      expect(other.get(LockService).held('goods')).toBe(false);
    }
  });

  it('checks the outer decorator first: a follower that may not run acquires no lock', async () => {
    const { one, other } = await apps.leaderAndFollower({ controllers: [Jobs] });
    await using _lease = await one.get(LockService).acquire('goods');
    await expect(other.get(Jobs).leaderFirst()).rejects.toMatchObject({ code: 'NOT_LEADER' });
    await expect(other.get(Jobs).lockFirst()).rejects.toMatchObject({ code: 'BUSY' });
    await expect(one.get(Jobs).leaderFirst()).rejects.toMatchObject({ code: 'BUSY' });
    const statuses = paths.map(async (path) => (await get(other, path)).status);
    expect(await Promise.all(statuses)).toEqual([503, 503, 409, 409]);
  });

  const handler = (path: string) => async (app: TestApp) => {
    const { status, body } = await get(app, path);
    if (status === 503) throw new NotLeaderError((body as { code: string }).code);
    return body;
  };
  it.each<[string, (app: TestApp) => Promise<unknown>]>([
    ['promise', (app) => app.get(Jobs).waiting()],
    ['stream', (app) => firstValueFrom(app.get(Jobs).watching())],
    ['handler with a fixed key', handler('/waiting/fixed')],
    ['handler with a key from its arguments', handler('/waiting/goods')],
  ])('does not run if the leadership ends before the lock is granted (%s)', async (_, run) => {
    const { one, other } = await apps.leaderAndFollower({ controllers: [Jobs] });
    const lease = await other.get(LockService).acquire('goods');
    const late = expect(run(one)).rejects.toThrow(NotLeaderError);
    await untilQueued(one.client, 'goods', 2);
    await one.get(LeaderService).resign('job');
    await untilLeading(other.get(LeaderService), 'job');
    await lease.release();
    await late;
    expect(one.get(Jobs).ran).toBe(0);
    expect(await run(other)).toBe(1);
  });
});
