import { on } from 'node:events';
import { Controller, Get, Param, Sse } from '@nestjs/common';
import { currentLease, DistributedLock, LockService } from 'nestjs-zookeeper';
import { concat, map, NEVER, Observable, of, Subject } from 'rxjs';
import request from 'supertest';
import { describe, expect, it } from 'vitest';
import { call, loseSession, useApps } from '../../support/nest-apps.js';
import { useServer } from '../../support/servers.js';

const zk = useServer();
const apps = useApps(zk);

interface Event {
  data: string;
}

describe('a locked stream of server-sent events', () => {
  @Controller()
  class Feed {
    readonly prices = new Subject<string>();

    @Sse('fixed')
    @DistributedLock('feed')
    fixed(): Observable<Event> {
      return this.stream('fixed');
    }

    @DistributedLock((id) => id)
    @Sse('argument/:id')
    argument(@Param('id') id: string): Observable<Event> {
      return this.stream(id);
    }

    @Sse('promised/:id')
    @DistributedLock((id) => id)
    async promised(@Param('id') id: string): Promise<Observable<Event>> {
      return this.stream(id);
    }

    private stream(name: string): Observable<Event> {
      return concat(of(`${name} ${currentLease()?.key}`), this.prices).pipe(
        map((data) => ({ data })),
      );
    }
  }

  it.each([
    ['/fixed', 'feed', 'fixed feed'],
    ['/argument/feed', 'feed', 'feed feed'],
    ['/promised/feed', 'feed', 'feed feed'],
  ])('holds the lock until its client disconnects (%s)', async (path, key, first) => {
    const app = await apps.listen({ controllers: [Feed] });
    const other = (await apps.start({})).get(LockService);
    const client = call(`${app.url}${path}`);
    let seen = '';
    const events = on((await client.answer).setEncoding('utf8'), 'data');
    while (!seen.includes(first)) seen += (await events.next()).value[0];

    expect(await other.tryAcquire(key)).toBeUndefined();
    client.leave();
    await using _lease = await other.acquire(key, { wait: 10_000 });
  });

  it('holds the lock until it completes', async () => {
    const app = await apps.listen({ controllers: [Feed] });
    const answer = request(app.url)
      .get('/fixed')
      .then(({ text }) => text);
    const other = (await apps.start({})).get(LockService);
    const feed = app.get(Feed);
    while (!feed.prices.observed) await new Promise(setImmediate);
    expect(await other.tryAcquire('feed')).toBeUndefined();
    feed.prices.complete();
    expect(await answer).toContain('data: fixed feed');
    await using _lease = await other.acquire('feed', { wait: 5_000 });
  });

  it('ends with an error event if the lock is held elsewhere, because Nest has sent the headers by then', async () => {
    @Controller()
    class Busy {
      @Sse()
      @DistributedLock('feed', { wait: 20 })
      events(): Observable<Event> {
        return NEVER;
      }
    }
    const app = await apps.listen({ controllers: [Busy] });
    await using _lease = await (await apps.start({})).get(LockService).acquire('feed');
    const { text } = await request(app.url).get('/');
    expect(text).toContain('event: error\n');
    expect(text).toContain('data: Still busy with other requests, try again\n');
  });
});

describe('a locked handler that returns an Observable', () => {
  it('answers with its last value, and holds the lock until it completes', async () => {
    const values = new Subject<boolean | undefined>();
    @Controller()
    class Prices {
      @Get()
      @DistributedLock('prices')
      last(): Observable<boolean | undefined> {
        return values;
      }
    }
    const app = await apps.listen({ controllers: [Prices] });
    const answer = request(app.url)
      .get('/')
      .then(({ text }) => text);
    while (!values.observed) await new Promise(setImmediate);
    values.next(false);
    values.next(app.get(LockService).held('prices'));
    values.complete();
    expect(await answer).toBe('true');
    expect(app.get(LockService).held('prices')).toBe(false);
  });

  it('answers 500 if its lease is lost', async () => {
    @Controller()
    class Prices {
      readonly started = new Subject<void>();
      @Get()
      @DistributedLock('prices')
      endless(): Observable<never> {
        return new Observable(() => this.started.next());
      }
    }
    const app = await apps.listen({ controllers: [Prices] });
    const started = new Promise<void>((resolve) => app.get(Prices).started.subscribe(resolve));
    const answer = request(app.url)
      .get('/')
      .then(({ status, body }) => ({ status, body }));
    await started;
    await loseSession(zk, app.client);
    expect(await answer).toMatchObject({ status: 500, body: { code: 'LEASE_LOST' } });
  });
});

describe('a locked handler that returns a generator', () => {
  it('answers 500, because the generator would run after the release', async () => {
    const ran: number[] = [];
    @Controller()
    class Prices {
      @Get()
      @DistributedLock('prices')
      async all() {
        return (async function* () {
          ran.push(1);
          yield 'price';
        })();
      }
    }
    const app = await apps.listen({ controllers: [Prices] });
    expect((await request(app.url).get('/')).status).toBe(500);
    expect(ran).toEqual([]);
  });
});
