import { createServer, type IncomingMessage, request as httpRequest } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { Readable } from 'node:stream';
import {
  Body,
  Controller,
  Delete,
  Get,
  Header,
  HttpCode,
  Param,
  Post,
  Redirect,
  Req,
  Res,
  Sse,
} from '@nestjs/common';
import { currentTerm, LeaderOnly, LeaderService } from 'nestjs-zookeeper';
import { NEVER } from 'rxjs';
import request from 'supertest';
import { describe, expect, it } from 'vitest';
import { useApps } from '../../support/nest-apps.js';
import { useServer } from '../../support/servers.js';

const zk = useServer();
const apps = useApps(zk);

/** Express's response. */
interface Cookies {
  cookie(name: string, value: string): this;
}

const OPTIONS = { election: 'forward', otherwise: 'forward' } as const;

@Controller('jobs')
class Jobs {
  @Get('who')
  @LeaderOnly(OPTIONS)
  async who(@Req() { query, headers }: { query: object; headers: Record<string, string> }) {
    return [currentTerm()!.participantId, query, headers['x-trace'], headers['x-leader-hops']];
  }

  @Post('echo')
  @HttpCode(202)
  @Header('X-Answer', 'yes')
  @LeaderOnly(OPTIONS)
  async echo(@Body() body: unknown, @Res({ passthrough: true }) response: Cookies) {
    response.cookie('a', '1').cookie('b', '2');
    return { got: body };
  }

  @Delete('gone')
  @HttpCode(204)
  @LeaderOnly(OPTIONS)
  async gone() {}

  @Post(':id/runs')
  @LeaderOnly(OPTIONS)
  async run(@Param('id') id: string) {
    return { id };
  }

  @Get('response')
  @LeaderOnly(OPTIONS)
  async response(@Res() response: { send(body: string): void }) {
    response.send('sent');
  }

  @Sse('events')
  @LeaderOnly(OPTIONS)
  async events() {
    return NEVER;
  }

  @Get('moved')
  @Redirect('/x', 301)
  @LeaderOnly(OPTIONS)
  async moved() {}

  @Get('large')
  @LeaderOnly(OPTIONS)
  async large() {
    return 'x'.repeat(1_000_000);
  }
}

/** Sends a request whose target no URL class has changed. */
async function post(base: string, path: string): Promise<unknown> {
  const { hostname, port } = new URL(base);
  const [answer] = (await once(
    httpRequest({ hostname, port, path, method: 'POST' }).end(),
    'response',
  )) as [IncomingMessage];
  return [answer.statusCode, await new Response(Readable.toWeb(answer) as never).text()];
}

/** Starts a leader whose id is its URL, and an instance that follows it. */
async function leaderAndFollower(id?: string) {
  const metadata = { controllers: [Jobs] };
  const leader = await apps.listen(metadata);
  // The port is known only now.
  await leader.get(LeaderService).latch('forward').close();
  await leader
    .get(LeaderService)
    .latch('forward', { id: id ?? leader.url })
    .await();
  const follower = await apps.listen(metadata);
  return { leader, follower };
}

describe("a @LeaderOnly handler with otherwise: 'forward'", () => {
  it('answers with the answer of the leader: status, headers, cookies and body', async () => {
    const { leader, follower } = await leaderAndFollower();
    const who = await request(follower.url).get('/jobs/who?a=1&b=%2F').set('X-Trace', 't1');
    expect(who.body).toEqual([leader.url, { a: '1', b: '/' }, 't1', '1']);
    const echo = await request(follower.url)
      .post('/jobs/echo')
      .send({ n: [1, { m: 'ü' }] });
    expect(echo.status).toBe(202);
    expect(echo.headers['x-answer']).toBe('yes');
    expect(echo.headers['set-cookie']).toEqual(['a=1; Path=/', 'b=2; Path=/']);
    expect(echo.body).toEqual({ got: { n: [1, { m: 'ü' }] } });
    expect((await request(follower.url).delete('/jobs/gone')).status).toBe(204);
    expect((await request(follower.url).get('/jobs/large')).text).toHaveLength(1_000_000);
  });

  it('forwards a body that no parser has read, and refuses what it cannot forward', async () => {
    const { follower } = await leaderAndFollower();
    const post = () => request(follower.url).post('/jobs/echo');
    expect((await post().set('Content-Type', 'text/plain').send('a text')).status).toBe(202);
    // The body was parsed and cannot be sent again.
    expect((await post().type('form').send({ a: 1 })).status).toBe(500);
    // The handlers do not return their answers.
    for (const path of ['/jobs/response', '/jobs/events', '/jobs/moved']) {
      expect((await request(follower.url).get(path)).status).toBe(500);
    }
  });

  it('forwards the path as the client sent it', async () => {
    const { leader, follower } = await leaderAndFollower();
    for (const target of ['/jobs/%2e%2e/runs', '/jobs/a%2Fb/runs?x=..', '/jobs/..%5cadmin/runs']) {
      const [direct, forwarded] = await Promise.all(
        [leader, follower].map(({ url }) => post(url, target)),
      );
      expect(forwarded).toEqual(direct);
    }
  });

  it('answers 503 after three hops, which ends a circle', async () => {
    const { follower } = await leaderAndFollower();
    for (const hops of ['3', '-1', '-Infinity', 'NaN']) {
      const get = request(follower.url).get('/jobs/who').set('X-Leader-Hops', hops);
      expect(await get).toMatchObject({ status: 503, body: { code: 'NOT_LEADER' } });
    }
    // An instance that takes itself for another one forwards in a circle.
    follower.get(LeaderService).leader = async () => ({ id: follower.url }) as never;
    expect((await request(follower.url).get('/jobs/who')).status).toBe(503);
  });

  it('answers 502 if the leader does not answer, and does not name the leader', async () => {
    const closed = createServer();
    await once(closed.listen(0, '127.0.0.1'), 'listening');
    const { port } = closed.address() as AddressInfo;
    await new Promise((resolve) => closed.close(resolve));
    const { follower } = await leaderAndFollower(`http://127.0.0.1:${port}`);
    const { status, body } = await request(follower.url).get('/jobs/who');
    expect([status, body]).toEqual([
      502,
      { statusCode: 502, code: 'FORWARDING', message: 'The leader did not answer' },
    ]);
  });

  it('fails if the id of the leader is not a URL', async () => {
    const { follower } = await leaderAndFollower('host:1234');
    expect((await request(follower.url).get('/jobs/who')).status).toBe(500);
  });
});
