import { Inject, Injectable, type OnModuleInit } from '@nestjs/common';
import {
  BadOptionError,
  getLeaderServiceToken,
  InjectLeaderService,
  LeaderService,
  type LeadershipChange,
  ShuttingDownError,
  ZkClient,
  ZkModule,
} from 'nestjs-zookeeper';
import { LeaderLatch } from 'nestjs-zookeeper/recipes';
import { describe, expect, vi } from 'vitest';
import { loseSession, untilCandidates, untilLeading, useApps } from '../../support/nest-apps.js';
import { useServer } from '../../support/servers.js';
import { currentWorld, it } from '../../support/virtual-time.js';
import { untilState } from '../../support/clients.js';

const zk = useServer();
const apps = useApps(zk);

/** Returns the leader service of an application of its own. */
async function service(participantId: string): Promise<LeaderService> {
  return (await apps.start({}, { participantId })).get(LeaderService);
}

/** The leader services of two applications. The first one leads the election `job`. */
async function two() {
  const { one, other } = await apps.leaderAndFollower({});
  return { one: one.get(LeaderService), other: other.get(LeaderService) };
}

describe('LeaderService', () => {
  it('joins the elections of the module at startup', async () => {
    const path = zk.path('exact');
    await apps.start(
      {},
      {
        participantId: 'shop-1',
        elections: [
          'plain',
          { election: 'addressed', id: '10.0.0.1:80' },
          { election: 'exact', path },
        ],
      },
    );
    const observer = await service('observer');
    const idOf = async (...asked: Parameters<LeaderService['leader']>) =>
      (await observer.leader(...asked))?.id;
    await expect.poll(() => idOf('plain')).toBe('shop-1');
    await expect.poll(() => idOf('addressed')).toBe('10.0.0.1:80');
    await expect.poll(() => idOf('exact', { path })).toBe('shop-1');
    expect(await idOf('exact')).toBeUndefined();
  });

  it('takes options that a call leaves undefined from the module', async () => {
    const path = zk.path('exact');
    const app = await apps.start({}, { elections: [{ election: 'job', id: 'me', path }] });
    const leaders = app.get(LeaderService);
    const left = { id: undefined, path: undefined };
    await leaders.latch('job').close();
    const other = (await service('other')).latch('job', { path });
    await other.await();
    expect(await leaders.participants('job', { path: undefined })).toMatchObject([{ id: 'other' }]);
    expect(leaders.latch('job', left)).toMatchObject({ id: 'me', path });
    expect(await leaders.participants('job', { path: zk.path('empty') })).toEqual([]);
    await leaders.latch('job').close();
    expect(leaders.select('job', () => {}, left)).toMatchObject({ id: 'me', path });
  });

  it('becomes a candidate with the first call of isLeader()', async () => {
    const app = await apps.start({}, { participantId: 'one' });
    const leaders = app.get(LeaderService);
    expect([leaders.isLeader('job'), leaders.term('job')]).toEqual([false, undefined]);
    await expect.poll(() => leaders.isLeader('job')).toBe(true);
    expect(leaders.term('job')).toMatchObject({
      election: 'job',
      path: `${app.client.namespace}/elections/job`,
      participantId: 'one',
      active: true,
    });
  });

  it('lists the leader and the candidates without becoming a candidate', async () => {
    const observer = await service('observer');
    expect(await observer.leader('job')).toBeUndefined();
    expect(await observer.participants('job')).toEqual([]);
    await two();
    expect(await observer.participants('job')).toMatchObject([
      { id: 'one', isLeader: true },
      { id: 'other', isLeader: false },
    ]);
    expect(await observer.leader('job')).toMatchObject({ id: 'one', isLeader: true });
    expect(await observer.participants('job')).toHaveLength(2);
  });

  it('can be injected by class, and by token for a named connection', async () => {
    @Injectable()
    class Jobs {
      constructor(
        readonly byClass: LeaderService,
        @InjectLeaderService('stock') readonly stock: LeaderService,
      ) {}
    }
    const app = await apps.start({
      imports: [
        ZkModule.forRoot(
          apps.options({ name: 'stock', namespace: zk.path('stock'), elections: ['job'] }),
        ),
      ],
      providers: [Jobs],
    });
    const { byClass, stock } = app.get(Jobs);
    expect(stock).toBe(app.get(getLeaderServiceToken('stock')));
    await untilLeading(stock, 'job');
    expect(await byClass.participants('job')).toEqual([]);
    // Both can lead, because the elections of the two connections are different.
    await untilLeading(byClass, 'job');
  });

  it('can be used before the connection exists', async () => {
    @Injectable()
    class Early implements OnModuleInit {
      constructor(@Inject(LeaderService) readonly leaders: LeaderService) {
        leaders.latch('job');
      }
      async onModuleInit() {
        await this.leaders.latch('job').await();
      }
    }
    const app = await apps.start({ providers: [Early] });
    expect(app.get(LeaderService).isLeader('job')).toBe(true);
  });

  it('becomes a candidate as soon as a lazy connection is established', async () => {
    await zk.stop();
    const retry = { type: 'forever', delay: 50 } as const;
    const app = await apps.start({}, { lazyConnection: true, elections: ['job'], retry });
    const leaders = app.get(LeaderService);
    expect(leaders.isLeader('job')).toBe(false);
    const seen = leaders.participants('other');
    await zk.start();
    expect(await seen).toEqual([]);
    await untilLeading(leaders, 'job');
  });
});

describe('LeaderService.latch', () => {
  it('returns the same latch each time', async () => {
    const path = zk.path('exact');
    const leaders = await service('one');
    const latch = leaders.latch('job', { id: 'me', path });
    expect(latch).toBeInstanceOf(LeaderLatch);
    expect(leaders.latch('job')).toBe(latch);
    expect(leaders.latch('job', { id: 'me', path })).toBe(latch);
    expect((await latch.await()).participantId).toBe('me');
    expect(leaders.isLeader('job')).toBe(true);
    expect(await leaders.participants('job')).toMatchObject([{ id: 'me' }]);
  });

  it('rejects other options for an existing latch, and names them', async () => {
    const leaders = await service('one');
    leaders.latch('job');
    for (const [options, message] of [
      [{ id: 'two' }, /id.*one.*"two"/],
      [{ path: '/other' }, /path.*elections\/job.*"\/other"/],
    ] as const) {
      expect(() => leaders.latch('job', options)).toThrow(BadOptionError);
      expect(() => leaders.latch('job', options)).toThrow(message);
    }
  });

  it('returns a new latch after the old one was closed, and listeners of the service remain', async () => {
    const { one, other } = await two();
    const seen: boolean[] = [];
    one.changes('job').subscribe(({ isLeader }) => seen.push(isLeader));
    const first = one.latch('job');
    await first.close();
    await untilLeading(other, 'job');
    expect(one.isLeader('job')).toBe(false);
    expect(one.latch('job')).not.toBe(first);
    await untilCandidates(other, 'job', ['other', 'one']);
    await other.resign('job');
    await expect.poll(() => one.isLeader('job')).toBe(true);
    expect(seen).toEqual([true, false, true]);
  });
});

describe('LeaderService refuses', () => {
  it.each<[string, RegExp]>([
    ['', /election.*""/],
    ['a\0b', /election/],
    [42 as never, /election.*42/],
  ])('the election %j', async (election, message) => {
    const leaders = await service('one');
    for (const attempt of [
      () => leaders.latch(election),
      () => leaders.select(election, () => {}),
      () => leaders.isLeader(election),
      () => leaders.term(election),
      () => leaders.changes(election),
    ]) {
      expect(attempt).toThrow(BadOptionError);
      expect(attempt).toThrow(message);
    }
    await expect(leaders.leader(election)).rejects.toThrow(message);
    await expect(leaders.participants(election)).rejects.toThrow(message);
    await expect(leaders.resign(election)).rejects.toThrow(message);
  });

  it.each<[unknown, RegExp]>([
    [{ ids: 'x' }, /unknown option ids in options: (did you mean id|.*path)/],
    ['x', /options.*"x"/],
    [{ id: 5 }, /id.*5|unknown option id/],
    [{ path: 'relative' }, /path.*"relative"/],
  ])('the options %j', async (options, message) => {
    const leaders = await service('one');
    expect(() => leaders.latch('job', options as object)).toThrow(BadOptionError);
    expect(() => leaders.latch('job', options as object)).toThrow(message);
    expect(() => leaders.select('job', () => {}, options as object)).toThrow(message);
    await expect(leaders.participants('job', options as object)).rejects.toThrow(BadOptionError);
    await expect(leaders.leader('job', options as object)).rejects.toThrow(message);
    // An id is an option of candidates only.
    const look = leaders.participants('job', { id: 'x' } as object);
    await expect(look).rejects.toThrow(/unknown option id/);
  });

  it('an application with invalid elections, and leaves nothing behind', async () => {
    const twice = apps.start({}, { elections: ['job', { election: 'job', id: 'two' }] });
    await expect(twice).rejects.toThrow(/elections\[1\].*"job".*twice/);
    const wrong = apps.start({}, { elections: ['job', { election: 'two', path: 'two' }] });
    await expect(wrong).rejects.toThrow(/elections\[1\]\.path.*"two"/);
    expect(await (await service('observer')).participants('job')).toEqual([]);
  });

  it('an application that cannot join an election, and leaves nothing behind', async () => {
    const join = LeaderService.prototype.isLeader;
    const isLeader = vi.spyOn(LeaderService.prototype, 'isLeader');
    isLeader.mockImplementation(function (this: LeaderService, election) {
      if (election === 'two') throw new Error('cannot join');
      return join.call(this, election);
    });
    const close = vi.spyOn(ZkClient.prototype, 'close');
    await expect(apps.start({}, { elections: ['job', 'two'] })).rejects.toThrow('cannot join');
    expect((close.mock.contexts[0] as ZkClient).state).toBe('CLOSED');
    close.mockRestore();
    isLeader.mockRestore();
    expect(await (await service('observer')).participants('job')).toEqual([]);
  });

  it('everything except queries after the application has shut down', async () => {
    const app = await apps.start({});
    const leaders = app.get(LeaderService);
    await untilLeading(leaders, 'job');
    await app.close();
    expect([leaders.isLeader('job'), leaders.term('new')]).toEqual([false, undefined]);
    expect(() => leaders.latch('job')).toThrow(ShuttingDownError);
    expect(() => leaders.select('new', () => {})).toThrow(/"new" is refused.*shutting down/);
    const seen: boolean[] = [];
    await new Promise<void>((complete) =>
      leaders.changes('job').subscribe({ next: (now) => seen.push(now.isLeader), complete }),
    );
    expect(seen).toEqual([false]);
    await leaders.resign('job');
  });
});

describe('LeaderService.changes', () => {
  it('emits the present state, each change, and completes when the module closes', async () => {
    const app = await apps.start({}, { participantId: 'one' });
    const leaders = app.get(LeaderService);
    const seen: LeadershipChange[] = [];
    const completed = new Promise<void>((complete) =>
      leaders.changes('job').subscribe({ next: (change) => seen.push(change), complete }),
    );
    const flags = () => seen.map(({ isLeader }) => isLeader);
    expect(flags()).toEqual([false]);
    await expect.poll(flags).toEqual([false, true]);
    expect(seen[1]).toEqual({ election: 'job', isLeader: true, term: leaders.term('job') });
    await leaders.resign('job');
    await expect.poll(flags).toEqual([false, true, false, true]);
    expect(seen[2]).toEqual({ election: 'job', isLeader: false, term: undefined });

    const late: boolean[] = [];
    const subscription = leaders.changes('job').subscribe(({ isLeader }) => late.push(isLeader));
    expect(late).toEqual([true]);
    subscription.unsubscribe();
    await app.close();
    await completed;
    expect(flags()).toEqual([false, true, false, true, false]);
    expect(late).toEqual([true]);
  });

  it('emits the loss of the session, and the next election', async () => {
    const app = await apps.start({});
    const leaders = app.get(LeaderService);
    const first = await untilLeading(leaders, 'job');
    const seen: boolean[] = [];
    leaders.changes('job').subscribe(({ isLeader }) => seen.push(isLeader));
    await loseSession(zk, app.client);
    await expect.poll(() => seen).toEqual([true, false, true]);
    expect(leaders.term('job')!.fencingToken).toBeGreaterThan(first.fencingToken);
  });

  it('emits the changes in the same order to all subscribers, also if one of them resigns on a change', async () => {
    const leaders = await service('one');
    const seen: Record<string, boolean[]> = { resigning: [], watching: [] };
    let resigned = false;
    leaders.changes('job').subscribe(({ isLeader }) => {
      seen.resigning!.push(isLeader);
      if (isLeader && !resigned) {
        resigned = true;
        void leaders.resign('job');
      }
    });
    leaders.changes('job').subscribe(({ isLeader }) => seen.watching!.push(isLeader));
    const expected = [false, true, false, true];
    await expect.poll(() => seen).toEqual({ resigning: expected, watching: expected });
  });

  it('emits nothing twice to a subscriber that subscribes during a change', async () => {
    const leaders = await service('one');
    const seen: boolean[] = [];
    leaders.changes('job').subscribe(({ isLeader }) => {
      if (!isLeader || seen.length > 0) return;
      void leaders.resign('job');
      leaders.changes('job').subscribe((change) => seen.push(change.isLeader));
    });
    await expect.poll(() => seen.at(-1)).toBe(true);
    expect(seen).toEqual([false, true]);
  });

  it.each(['silent', 'notify'] as const)(
    'emits the end of the leadership when the latch is closed with the mode %s',
    async (mode) => {
      const leaders = await service('one');
      const { signal } = await untilLeading(leaders, 'job');
      const seen: boolean[] = [];
      leaders.changes('job').subscribe(({ isLeader }) => seen.push(isLeader));
      const latch = leaders.latch('job');
      const calls: unknown[] = [];
      latch.onChange((term) => calls.push(term));
      const closed = latch.close(mode);
      expect([signal.aborted, seen]).toEqual([true, [true, false]]);
      await closed;
      expect(calls).toEqual(mode === 'silent' ? [] : [undefined]);
      expect(seen).toEqual([true, false]);
    },
  );

  it('emits the loss of leadership to a subscriber that resigns in its first callback', async () => {
    const leaders = await service('one');
    await untilLeading(leaders, 'job');
    const seen: boolean[] = [];
    leaders.changes('job').subscribe(({ isLeader }) => {
      seen.push(isLeader);
      if (seen.length === 1) void leaders.resign('job');
    });
    await expect.poll(() => seen).toEqual([true, false, true]);
  });
});

it.each([
  ['standard', false],
  ['session', true],
] as const)(
  'with the policy %j a leader with a suspended connection keeps the leadership: %s',
  async (policy, leadsOn) => {
    const process = currentWorld().process('app');
    const app = await apps.start({}, { policy }, process);
    const leaders = app.get(LeaderService);
    const term = await untilLeading(leaders, 'job');
    const allow = process.link.refuseConnections();
    process.link.reset();
    await untilState(app.client, 'SUSPENDED');
    expect([leaders.isLeader('job'), term.active]).toEqual([leadsOn, leadsOn]);
    allow();
    await untilLeading(leaders, 'job');
    expect(term.active).toBe(leadsOn);
  },
);
