import { once } from 'node:events';
import { get, type IncomingMessage } from 'node:http';
import { text } from 'node:stream/consumers';
import { Controller, Get, Sse } from '@nestjs/common';
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
