import { once } from 'node:events';
import { get, type IncomingMessage } from 'node:http';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { Controller, Get, Post, Sse } from '@nestjs/common';
import { DistributedLock, LockService } from 'nestjs-zookeeper';
import { NEVER, startWith } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { untilQueued, useApps } from '../../support/nest-apps.js';
import { useServer } from '../../support/servers.js';

const apps = useApps(useServer());

@Controller()
class Shop {
  @Get('wait')
  @DistributedLock('goods')
  async wait() {}

  @Post('upload')
  @DistributedLock('goods', { wait: 1_000 })
  async upload() {}

  @Sse('feed')
  @DistributedLock('goods')
  feed() {
    return NEVER.pipe(startWith({ data: 'first' }));
  }
}

/** Sends a request on a connection of its own. */
const send = (url: string) => get(url, { agent: false }).on('error', () => {});
const answerOf = async (request: ReturnType<typeof send>) =>
  (await once(request, 'response'))[0] as IncomingMessage;

describe('a client that closes its connection', () => {
  it('leaves the queue of its lock', async () => {
    const app = await apps.listen({ controllers: [Shop] });
    await using _lease = await (await apps.start({})).get(LockService).acquire('goods');
    const request = send(`${app.url}/wait`);
    await untilQueued(app.client, 'goods', 2);
    request.destroy();
    await untilQueued(app.client, 'goods', 1);
  });

  it('keeps its place for its wait if nobody has read its body, because Node does not notice it', async () => {
    const app = await apps.listen({ controllers: [Shop] });
    await using _lease = await (await apps.start({})).get(LockService).acquire('goods');
    const socket = connect(Number(new URL(app.url).port), '127.0.0.1');
    const head = `POST /upload HTTP/1.1\r\nhost: shop\r\ncontent-type: application/octet-stream\r\n`;
    socket.write(`${head}content-length: 1000000\r\n\r\n`);
    socket.write(Buffer.alloc(1_000_000));
    await untilQueued(app.client, 'goods', 2);
    const left = performance.now();
    socket.end();
    await untilQueued(app.client, 'goods', 1);
    expect(performance.now() - left).toBeGreaterThan(500);
    socket.destroy();
  });

  it('releases the lock of its stream', async () => {
    const app = await apps.listen({ controllers: [Shop] });
    const other = (await apps.start({})).get(LockService);
    const request = send(`${app.url}/feed`);
    // The headers are sent before the lock is granted.
    for await (const chunk of (await answerOf(request)).setEncoding('utf8').iterator({
      destroyOnReturn: false,
    })) {
      if (String(chunk).includes('data: first')) break;
    }
    expect(await other.tryAcquire('goods')).toBeUndefined();
    request.destroy();
    await using _lease = await other.acquire('goods');
  });
});

it('an application that shuts down ends the waits of its requests, so that its HTTP server can close', async () => {
  const app = await apps.listen({ controllers: [Shop] });
  const other = await apps.start({});
  await using _lease = await other.get(LockService).acquire('goods');
  const answered = answerOf(send(`${app.url}/wait`));
  await untilQueued(other.client, 'goods', 2);
  const closed = app.close();
  const answer = await answered;
  const body: unknown = JSON.parse(await text(answer));
  expect([answer.statusCode, body]).toMatchObject([503, { code: 'SHUTTING_DOWN' }]);
  await closed;
  await untilQueued(other.client, 'goods', 1);
});
