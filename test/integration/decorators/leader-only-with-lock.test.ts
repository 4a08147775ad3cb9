import { Controller, Get, Injectable, Param } from '@nestjs/common';
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
import request from 'supertest';
import { describe, expect, it } from 'vitest';
import { untilLeading, untilQueued, useApps } from '../../support/nest-apps.js';
import { useServer } from '../../support/servers.js';

const zk = useServer();
const apps = useApps(zk);

describe('a provider method with @LeaderOnly and @DistributedLock', () => {
  @Injectable()
  class Jobs {
    ran = 0;

    @LeaderOnly('job')
    @DistributedLock('goods', { wait: 0 })
    async leaderFirst(): Promise<unknown> {
      return [currentTerm()?.active, currentLease()?.held];
    }

    @DistributedLock('goods', { wait: 0 })
    @LeaderOnly('job')
    async lockFirst(): Promise<unknown> {
      return [currentTerm()?.active, currentLease()?.held];
    }

    @LeaderOnly({ election: 'job', otherwise: 'throw' })
    @DistributedLock('goods')
    async waiting(): Promise<number> {
      return ++this.ran;
    }

    @LeaderOnly({ election: 'job', otherwise: 'throw' })
    @DistributedLock('goods')
    watching(): Observable<number> {
      return of(++this.ran);
    }
  }

  it('runs as the leader and with the lock, in either order', async () => {
    const { one } = await apps.leaderAndFollower({ providers: [Jobs] });
    expect(await one.get(Jobs).leaderFirst()).toEqual([true, true]);
    expect(await one.get(Jobs).lockFirst()).toEqual([true, true]);
  });

  it('checks the outer decorator first: a follower that may not run acquires no lock', async () => {
    const { one, other } = await apps.leaderAndFollower({ providers: [Jobs] });
    await using _lease = await one.get(LockService).acquire('goods');
    expect(await other.get(Jobs).leaderFirst()).toBeUndefined();
    await expect(other.get(Jobs).lockFirst()).rejects.toMatchObject({ code: 'BUSY' });
    await expect(one.get(Jobs).leaderFirst()).rejects.toMatchObject({ code: 'BUSY' });
  });

  it.each([
    ['promise', (jobs: Jobs) => jobs.waiting()],
    ['stream', (jobs: Jobs) => firstValueFrom(jobs.watching())],
  ])('does not run if the leadership ends before the lock is granted (%s)', async (_, run) => {
    const { one, other } = await apps.leaderAndFollower({ providers: [Jobs] });
    const lease = await other.get(LockService).acquire('goods');
    const late = expect(run(one.get(Jobs))).rejects.toThrow(NotLeaderError);
    await untilQueued(one.client, 'goods', 2);
    await one.get(LeaderService).resign('job');
    await untilLeading(other.get(LeaderService), 'job');
    await lease.release();
    await late;
    expect(one.get(Jobs).ran).toBe(0);
    expect(await run(other.get(Jobs))).toBe(1);
  });
});

describe('a handler with @LeaderOnly and @DistributedLock', () => {
  @Controller()
  class Jobs {
    ran = 0;

    @Get('leader/fixed')
    @LeaderOnly('job')
    @DistributedLock('goods', { wait: 0 })
    async leaderFirst() {
      return [currentTerm()?.active, currentLease()?.key];
    }

    @Get('leader/:id')
    @LeaderOnly('job')
    @DistributedLock((id) => id, { wait: 0 })
    async leaderFirstByArgument(@Param('id') _id: string) {
      return [currentTerm()?.active, currentLease()?.key];
    }

    @Get('lock/fixed')
    @DistributedLock('goods', { wait: 0 })
    @LeaderOnly('job')
    async lockFirst() {
      return [currentTerm()?.active, currentLease()?.key];
    }

    @Get('lock/:id')
    @DistributedLock((id) => id, { wait: 0 })
    @LeaderOnly('job')
    async lockFirstByArgument(@Param('id') _id: string) {
      return [currentTerm()?.active, currentLease()?.key];
    }

    @Get('waiting/fixed')
    @LeaderOnly('job')
    @DistributedLock('goods')
    async waiting() {
      this.ran++;
    }

    @Get('waiting/:id')
    @LeaderOnly('job')
    @DistributedLock((id) => id)
    async waitingByArgument(@Param('id') _id: string) {
      this.ran++;
    }
  }

  it.each(['/leader/fixed', '/leader/goods', '/lock/fixed', '/lock/goods'])(
    'runs as the leader and with the lock (%s)',
    async (path) => {
      const { one, other } = await apps.leaderAndFollower({ controllers: [Jobs] });
      expect((await request(one.url).get(path)).body).toEqual([true, 'goods']);
      expect((await request(other.url).get(path)).status).toBe(503);
      expect(other.get(LockService).held('goods')).toBe(false);
    },
  );

  it('checks the outer decorator first', async () => {
    const { one, other } = await apps.leaderAndFollower({ controllers: [Jobs] });
    await using _lease = await one.get(LockService).acquire('goods');
    const statusOf = async (path: string) => (await request(other.url).get(path)).status;
    expect([await statusOf('/leader/fixed'), await statusOf('/leader/goods')]).toEqual([503, 503]);
    expect([await statusOf('/lock/fixed'), await statusOf('/lock/goods')]).toEqual([409, 409]);
  });

  it.each(['/waiting/fixed', '/waiting/goods'])(
    'does not run if the leadership ends before the lock is granted (%s)',
    async (path) => {
      const { one, other } = await apps.leaderAndFollower({ controllers: [Jobs] });
      const lease = await other.get(LockService).acquire('goods');
      const answer = request(one.url)
        .get(path)
        .then(({ status, body }) => ({ status, body }));
      await untilQueued(one.client, 'goods', 2);
      await one.get(LeaderService).resign('job');
      await untilLeading(other.get(LeaderService), 'job');
      await lease.release();
      expect(await answer).toMatchObject({ status: 503, body: { code: 'NOT_LEADER' } });
      expect(one.get(Jobs).ran).toBe(0);
      await untilQueued(one.client, 'goods', 0);
    },
  );
});
