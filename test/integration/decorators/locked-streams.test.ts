import { Controller, Get, Param, Sse } from '@nestjs/common';
import {
  currentLease,
  DistributedLock,
  DistributedSemaphore,
  type Lease,
  LockService,
} from 'nestjs-zookeeper';
import { concat, defer, from, map, NEVER, Observable, of, Subject } from 'rxjs';
import { beforeEach, describe, expect } from 'vitest';
import { call, get } from '../../support/http-calls.js';
import { loseSession, useApps } from '../../support/nest-apps.js';
import { useServer } from '../../support/servers.js';
import { it } from '../../support/virtual-time.js';

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

    @Sse('busy')
    @DistributedLock('feed', { wait: 20 })
    busy(): Observable<Event> {
      return NEVER;
    }

    private stream(name: string): Observable<Event> {
      return concat(of(`${name} ${currentLease()?.key}`), this.prices).pipe(
        map((data) => ({ data })),
      );
    }
  }

  it.each([
    ['/fixed', 'fixed feed'],
    ['/argument/feed', 'feed feed'],
    ['/promised/feed', 'feed feed'],
  ])('holds the lock until its client disconnects or it completes (%s)', async (path, first) => {
    const app = await apps.start({ controllers: [Feed] });
    const other = (await apps.start({})).get(LockService);
    const start = async () => {
      const request = call(app, path);
      await expect.poll(() => request.received()).toContain(`data: ${first}`);
      expect(await other.tryAcquire('feed')).toBeUndefined();
      return request;
    };
    (await start()).leave();
    await (await other.acquire('feed', { wait: 100 })).release();
    const { answer } = await start();
    app.get(Feed).prices.complete();
    await answer;
    await using _lease = await other.acquire('feed', { wait: 100 });
  });

  it('ends with an error event if the lock is held elsewhere, because Nest has sent the headers by then', async () => {
    const app = await apps.start({ controllers: [Feed] });
    await using _lease = await (await apps.start({})).get(LockService).acquire('feed');
    const { text } = await get(app, '/busy');
    expect(text).toContain('event: error\n');
    expect(text).toContain('data: Still busy with other requests, try again\n');
  });
});

it('a locked handler that returns an Observable answers with its last value, and holds the lock until it completes', async () => {
  let values = new Subject<boolean | undefined>();
  @Controller()
  class Prices {
    @Get()
    @DistributedLock('prices')
    last(): Observable<boolean | undefined> {
      return values;
    }
  }
  const app = await apps.start({ controllers: [Prices] });
  const answer = get(app, '/');
  await expect.poll(() => values.observed).toBe(true);
  values.next(false);
  values.next(app.get(LockService).held('prices'));
  values.complete();
  expect((await answer).text).toBe('true');
  expect(app.get(LockService).held('prices')).toBe(false);

  values = new Subject();
  const lost = get(app, '/');
  await expect.poll(() => app.get(LockService).held('prices')).toBe(true);
  await loseSession(zk, app.client);
  expect(await lost).toMatchObject({ status: 500, body: { code: 'LEASE_LOST' } });
});

describe('asynchronous work inside the Observable of a locked handler', () => {
  let lease: Lease | undefined;
  let seen: unknown;
  let proceed: (() => void) | undefined;

  const work = async () => {
    lease = currentLease()!;
    await new Promise<void>((resolve) => (proceed = resolve));
    seen = lease.signal.reason;
    lease.signal.throwIfAborted();
    return 'written';
  };

  @Controller()
  class Sales {
    @Get('started')
    @DistributedLock('sales')
    started(): Observable<string> {
      return from(work());
    }

    @Get('deferred')
    @DistributedLock(['sales', 'stock'])
    deferred(): Observable<string> {
      return defer(work);
    }

    @Get('deferred/:id')
    @DistributedLock((id: string) => id)
    @DistributedLock((id: string) => `${id} stock`)
    deferredOf(@Param('id') id: string): Observable<string> {
      return defer(() => {
        expect(currentLease(id)?.held).toBe(true);
        return work();
      });
    }

    @Get('promised')
    @DistributedSemaphore('sales', { permits: 2, count: 2 })
    async promised(): Promise<Observable<string>> {
      return from(work());
    }
  }

  beforeEach(() => {
    lease = seen = proceed = undefined;
  });

  it.each(['/started', '/deferred', '/deferred/sales', '/promised'])(
    'finds its signal aborted if the client disconnects, because the lock is released (%s)',
    async (path) => {
      const app = await apps.start({ controllers: [Sales] });
      const request = call(app, path);
      await expect.poll(() => proceed).toBeDefined();
      request.leave();
      await expect.poll(() => lease!.held).toBe(false);
      proceed!();
      await expect
        .poll(() => seen)
        .toMatchObject({
          code: 'LEASE_LOST',
          message: expect.stringContaining('for example because the client disconnected') as string,
        });
    },
  );

  it('finds its signal not aborted after it has completed', async () => {
    const app = await apps.start({ controllers: [Sales] });
    const { answer } = call(app, '/started');
    await expect.poll(() => proceed).toBeDefined();
    proceed!();
    expect((await answer).text).toBe('written');
    expect(lease!.signal.aborted).toBe(false);
  });
});
