import { Controller, Get, HttpException, Injectable, Param, Post, Sse } from '@nestjs/common';
import {
  currentTerm,
  DistributedLock,
  LeaderOnly,
  LeaderService,
  NotLeaderError,
  WaitCancelledError,
} from 'nestjs-zookeeper';
import { concat, map, NEVER, Observable, of } from 'rxjs';
import { describe, expect } from 'vitest';
import { call, get, post } from '../../support/http-calls.js';
import { untilLeading, useApps } from '../../support/nest-apps.js';
import { useServer } from '../../support/servers.js';
import { Traced } from '../../support/traced.js';
import { it } from '../../support/virtual-time.js';

const apps = useApps(useServer());

describe('a @LeaderOnly HTTP handler', () => {
  @Controller()
  class Jobs {
    @Post('run/:id')
    @LeaderOnly('job')
    async run(@Param('id') id: string) {
      return [id, currentTerm()?.participantId];
    }

    @Get('routed')
    @LeaderOnly({
      election: 'job',
      otherwise: async ({ args, context, leader }) => {
        const { url } = context!.switchToHttp().getRequest<{ url: string }>();
        return [args, url, (await leader())?.id];
      },
    })
    async routed(): Promise<unknown> {
      return currentTerm()?.participantId;
    }

    @Get('otherwise-http')
    @LeaderOnly({
      election: 'job',
      otherwise: () => {
        throw new HttpException('elsewhere', 421);
      },
    })
    async otherwiseHttp() {}

    @Get('otherwise-error')
    @LeaderOnly({ election: 'job', otherwise: async () => Promise.reject(new Error('no')) })
    async otherwiseError() {}

    @Get('otherwise-cancelled')
    @LeaderOnly({
      election: 'job',
      otherwise: async () => Promise.reject(new WaitCancelledError("a wait of the function's")),
    })
    async otherwiseCancelled() {}

    @Get('own-http')
    @LeaderOnly('job')
    async ownHttp(): Promise<void> {
      throw new HttpException('sold out', 410);
    }

    @Get('own-not-leader')
    @LeaderOnly('job')
    async ownNotLeader(): Promise<void> {
      throw new NotLeaderError("somebody else's");
    }

    @Get('value')
    @LeaderOnly('job')
    value(): Observable<string | undefined> {
      return of(currentTerm()?.participantId);
    }

    @Sse('events')
    @LeaderOnly('job')
    events(): Observable<{ data: string }> {
      return concat(of(`term of ${currentTerm()?.participantId}`), NEVER).pipe(
        map((data) => ({ data })),
      );
    }
  }

  it('answers on the leader, within its term, and answers 503 on the other instances', async () => {
    const { one, other } = await apps.leaderAndFollower({ controllers: [Jobs] });
    expect((await post(one, '/run/7')).body).toEqual(['7', 'one']);
    expect((await get(one, '/value')).text).toBe('one');
    expect(await post(other, '/run/7')).toMatchObject({
      status: 503,
      body: { statusCode: 503, code: 'NOT_LEADER', message: 'This instance is not the leader' },
    });
    expect((await get(other, '/value')).status).toBe(503);
    await one.get(LeaderService).resign('job');
    await untilLeading(other.get(LeaderService), 'job');
    expect((await post(other, '/run/7')).body).toEqual(['7', 'other']);
  });

  it('answers 500 on the other instances if a decorator, bind() or an override has replaced the method', async () => {
    const ran: string[] = [];
    class Base {
      @LeaderOnly('job')
      async overridden(): Promise<void> {
        ran.push('overridden');
      }
    }
    @Controller()
    class Wrapped extends Base {
      constructor() {
        super();
        this.bound = this.bound.bind(this);
      }

      @Post('traced')
      @Traced
      @LeaderOnly('job')
      async traced(): Promise<void> {
        ran.push('traced');
      }

      @Post('between')
      @DistributedLock('job')
      @Traced
      @LeaderOnly('job')
      async between(): Promise<void> {
        ran.push('between');
      }

      @Post('bound')
      @LeaderOnly('job')
      async bound(): Promise<void> {
        ran.push('bound');
      }

      @Post('overridden')
      override async overridden(): Promise<void> {
        await super.overridden();
      }
    }
    const { one, other } = await apps.leaderAndFollower({ controllers: [Wrapped] });
    for (const path of ['traced', 'between', 'bound', 'overridden']) {
      expect((await post(other, `/${path}`)).status).toBe(500);
      expect((await post(one, `/${path}`)).status).toBe(201);
    }
    expect(ran).toEqual(['traced', 'between', 'bound', 'overridden']);
  });

  it('passes on the result and the errors of the method and of the `otherwise` function unchanged', async () => {
    const { one, other } = await apps.leaderAndFollower({ controllers: [Jobs] });
    expect((await get(one, '/routed')).text).toBe('one');
    expect((await get(other, '/routed')).body).toEqual([[], '/routed', 'one']);
    expect((await get(other, '/otherwise-http')).status).toBe(421);
    expect((await get(other, '/otherwise-error')).status).toBe(500);
    expect((await get(other, '/otherwise-cancelled')).status).toBe(500);
    expect((await get(one, '/own-http')).status).toBe(410);
    expect((await get(one, '/own-not-leader')).status).toBe(500);
    await expect(one.get(Jobs).ownHttp()).rejects.toMatchObject({ message: 'sold out' });
  });

  it("answers as the module's mapError says", async () => {
    const mapError = ({ code, key }: { code: string; key?: string }) =>
      code === 'NOT_LEADER' ? new HttpException(`not the leader of ${key}`, 421) : undefined;
    const { other } = await apps.leaderAndFollower({ controllers: [Jobs] }, { mapError });
    expect(await post(other, '/run/7')).toMatchObject({
      status: 421,
      body: { message: 'not the leader of job' },
    });
  });

  it('ends server-sent events with an error event when the leadership ends', async () => {
    const { one, other } = await apps.leaderAndFollower({ controllers: [Jobs] });
    const { answer, received } = call(one, '/events');
    await expect.poll(received).toContain('data: term of one');
    await one.get(LeaderService).resign('job');
    const { text } = await answer;
    expect(text).toContain('event: error\n');
    expect(text).toContain('data: This instance is not the leader\n');
    await untilLeading(other.get(LeaderService), 'job');
    expect((await get(one, '/events')).text).toContain('is not the leader');
  });
});

it('a replaced @LeaderOnly method joins its election at the start', async () => {
  class Base {
    @LeaderOnly('overridden')
    async run(): Promise<void> {}
  }
  @Injectable()
  class Jobs extends Base {
    override async run(): Promise<void> {
      await super.run();
    }

    @Traced
    @LeaderOnly('traced')
    async traced(): Promise<void> {}
  }
  const app = await apps.start({ providers: [Jobs] });
  const leaders = app.get(LeaderService);
  for (const election of ['overridden', 'traced']) {
    // participants() only reads, and does not join.
    await expect.poll(async () => (await leaders.participants(election)).length).toBe(1);
  }
});
