import { on } from 'node:events';
import {
  Controller,
  Get,
  HttpException,
  type INestApplication,
  Param,
  Post,
  Sse,
} from '@nestjs/common';
import { MessagePattern, Payload } from '@nestjs/microservices';
import {
  currentTerm,
  LeaderOnly,
  LeaderService,
  NotLeaderError,
  WaitCancelledError,
} from 'nestjs-zookeeper';
import { concat, firstValueFrom, map, NEVER, Observable, of } from 'rxjs';
import request from 'supertest';
import { describe, expect, it } from 'vitest';
import { useTcpClients } from '../../support/messages.js';
import { call, Gate, untilLeading, useApps } from '../../support/nest-apps.js';
import { useServer } from '../../support/servers.js';

const zk = useServer();
const apps = useApps(zk);
const clientOf = useTcpClients();

describe('a @LeaderOnly HTTP handler', () => {
  it('answers on the leader, within its term, and answers 503 on the other instances', async () => {
    @Controller()
    class Jobs {
      @Post(':id')
      @LeaderOnly('job')
      async run(@Param('id') id: string) {
        return [id, currentTerm()?.participantId];
      }
    }
    const { one, other } = await apps.leaderAndFollower({ controllers: [Jobs] });
    expect((await request(one.url).post('/7')).body).toEqual(['7', 'one']);
    const { status, body } = await request(other.url).post('/7');
    expect([status, body]).toEqual([
      503,
      { statusCode: 503, code: 'NOT_LEADER', message: 'This instance is not the leader' },
    ]);
    await one.get(LeaderService).resign('job');
    await untilLeading(other.get(LeaderService), 'job');
    expect((await request(other.url).post('/7')).body).toEqual(['7', 'other']);
  });

  it('may redirect the request to the leader by its participant id', async () => {
    @Controller()
    class Jobs {
      @Get(':id')
      @LeaderOnly({
        election: 'routed',
        otherwise: async ({ args, context, leader }) => {
          const { id: address } = (await leader())!;
          const { url } = context!.switchToHttp().getRequest<{ url: string }>();
          return [args, await (await fetch(`${address}${url}`)).json()];
        },
      })
      async run(@Param('id') id: string) {
        return [id, currentTerm()?.participantId];
      }
    }
    const one = await apps.listen({ controllers: [Jobs] });
    // The port is known only now.
    await one.get(LeaderService).latch('routed').close();
    await one.get(LeaderService).latch('routed', { id: one.url }).await();
    const other = await apps.listen({ controllers: [Jobs] });
    expect((await request(other.url).get('/7')).body).toEqual([[], ['7', one.url]]);
  });

  it('rejects with the error of the `otherwise` function, unchanged', async () => {
    @Controller()
    class Jobs {
      @Get('http')
      @LeaderOnly({
        election: 'job',
        otherwise: () => {
          throw new HttpException('elsewhere', 421);
        },
      })
      async http() {}

      @Get('other')
      @LeaderOnly({ election: 'job', otherwise: async () => Promise.reject(new Error('no')) })
      async other() {}

      @Get('cancelled')
      @LeaderOnly({
        election: 'job',
        otherwise: async () => Promise.reject(new WaitCancelledError("a wait of the function's")),
      })
      async cancelled() {}
    }
    const { other } = await apps.leaderAndFollower({ controllers: [Jobs] });
    expect((await request(other.url).get('/http')).status).toBe(421);
    expect((await request(other.url).get('/other')).status).toBe(500);
    expect((await request(other.url).get('/cancelled')).status).toBe(500);
  });

  it("passes on the method's own errors, also a NotLeaderError of another election", async () => {
    @Controller()
    class Jobs {
      @Get('http')
      @LeaderOnly('job')
      async http(): Promise<void> {
        throw new HttpException('sold out', 410);
      }
      @Get('leader')
      @LeaderOnly('job')
      async leader(): Promise<void> {
        throw new NotLeaderError("somebody else's");
      }
    }
    const { one } = await apps.leaderAndFollower({ controllers: [Jobs] });
    expect((await request(one.url).get('/http')).status).toBe(410);
    expect((await request(one.url).get('/leader')).status).toBe(500);
    await expect(one.get(Jobs).http()).rejects.toMatchObject({ message: 'sold out' });
  });

  it("answers as the module's mapError says", async () => {
    @Controller()
    class Jobs {
      @Get()
      @LeaderOnly('job')
      async run() {}
    }
    const mapError = ({ code, key }: { code: string; key?: string }) =>
      code === 'NOT_LEADER' ? new HttpException(`not the leader of ${key}`, 421) : undefined;
    const { other } = await apps.leaderAndFollower({ controllers: [Jobs] }, { mapError });
    const { status, body } = await request(other.url).get('/');
    expect([status, body]).toMatchObject([421, { message: 'not the leader of job' }]);
  });

  it('answers 503 if the leadership was lost while it ran', async () => {
    const gate = new Gate();
    @Controller()
    class Jobs {
      @Get()
      @LeaderOnly('job')
      async run() {
        await gate.pass();
      }
    }
    const { one } = await apps.leaderAndFollower({ controllers: [Jobs] });
    const answer = request(one.url)
      .get('/')
      .then(({ status, body }) => ({ status, body }));
    await gate.reached;
    await one.get(LeaderService).resign('job');
    gate.open();
    expect(await answer).toMatchObject({ status: 503, body: { code: 'NOT_LEADER' } });
  });
});

describe('a @LeaderOnly handler that returns an Observable', () => {
  @Controller()
  class Feed {
    @Sse('events')
    @LeaderOnly('job')
    events(): Observable<{ data: string }> {
      return concat(of(`term of ${currentTerm()?.participantId}`), NEVER).pipe(
        map((data) => ({ data })),
      );
    }

    @Get('value')
    @LeaderOnly('job')
    value(): Observable<string | undefined> {
      return of(currentTerm()?.participantId);
    }
  }

  it('ends server-sent events with an error event when the leadership ends', async () => {
    const { one, other } = await apps.leaderAndFollower({ controllers: [Feed] });
    const client = call(`${one.url}/events`);
    let seen = '';
    const events = on((await client.answer).setEncoding('utf8'), 'data', { close: ['end'] });
    const until = async (text: string) => {
      while (!seen.includes(text)) seen += (await events.next()).value[0];
    };
    await until('data: term of one');
    await one.get(LeaderService).resign('job');
    await until('event: error\n');
    await until('data: This instance is not the leader\n');
    client.leave();

    await one.get(LeaderService).latch('job').close();
    await untilLeading(other.get(LeaderService), 'job');
    expect((await request(one.url).get('/events')).text).toContain('is not the leader');
  });

  it('answers with its value, or with 503', async () => {
    const { one, other } = await apps.leaderAndFollower({ controllers: [Feed] });
    expect((await request(one.url).get('/value')).text).toBe('one');
    expect((await request(other.url).get('/value')).status).toBe(503);
  });
});

describe('a @LeaderOnly message handler', () => {
  @Controller()
  class Jobs {
    @MessagePattern('run')
    @LeaderOnly('job')
    async run(@Payload() id: string) {
      return [id, currentTerm()?.participantId];
    }

    @LeaderOnly({ election: 'job', otherwise: async ({ leader }) => (await leader())?.id })
    @MessagePattern('routed')
    async routed(@Payload() id: string): Promise<unknown> {
      return id;
    }
  }

  async function sendTo(app: INestApplication) {
    const client = await clientOf(app);
    return (pattern: string) => firstValueFrom(client.send<unknown>(pattern, '7'));
  }

  it('answers on the leader, and rejects with an RpcException on the others', async () => {
    const { one, other } = await apps.leaderAndFollower({ controllers: [Jobs] });
    const [toLeader, toOther] = [await sendTo(one), await sendTo(other)];
    expect(await toLeader('run')).toEqual(['7', 'one']);
    await expect(toOther('run')).rejects.toMatchObject({ status: 'error', code: 'NOT_LEADER' });
    expect([await toLeader('routed'), await toOther('routed')]).toEqual(['7', 'one']);
  });
});
