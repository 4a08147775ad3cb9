import {
  Controller,
  Inject,
  Injectable,
  Logger,
  type OnApplicationBootstrap,
  Scope,
  UseGuards,
} from '@nestjs/common';
import {
  currentTerm,
  DistributedLock,
  getLeaderServiceToken,
  LeaderOnly,
  LeaderService,
  MisuseError,
  OnElected,
  OnResigned,
  type Term,
  ZkModule,
} from 'nestjs-zookeeper';
import { describe, expect, vi } from 'vitest';
import { Gate } from '../../support/gate.js';
import { loseSession, untilCandidates, untilLeading, useApps } from '../../support/nest-apps.js';
import { useServer } from '../../support/servers.js';
import { afterEach, it } from '../../support/virtual-time.js';

const zk = useServer();
const apps = useApps(zk);
afterEach(() => vi.restoreAllMocks());

@Injectable()
class Listening {
  readonly calls: [string, Term][] = [];
  readonly inside: (Term | undefined)[] = [];

  @OnElected('job')
  async elected(term: Term) {
    this.calls.push(['elected', term]);
    await new Promise(setImmediate);
    this.inside.push(currentTerm());
  }

  @OnResigned('job')
  resigned(term: Term) {
    this.calls.push(['resigned', term]);
    this.inside.push(currentTerm());
  }

  get names() {
    return this.calls.map(([name]) => name).join();
  }
}

describe('@OnElected and @OnResigned', () => {
  it('take part from startup on, and are called with the term, inside it', async () => {
    const app = await apps.start({ providers: [Listening] });
    const [leaders, listening] = [app.get(LeaderService), app.get(Listening)];
    await expect.poll(() => listening.names).toBe('elected');
    const first = leaders.term('job')!;
    await leaders.resign('job');
    await expect.poll(() => listening.names).toBe('elected,resigned,elected');
    const second = leaders.term('job')!;
    expect(listening.calls.map(([, term]) => term)).toEqual([first, first, second]);
    await expect.poll(() => listening.inside).toEqual([first, first, second]);
    expect(second.fencingToken).toBeGreaterThan(first.fencingToken);
  });

  it('are called in order if the elected listener resigns, and not on an instance that waits', async () => {
    @Injectable()
    class Resigning extends Listening {
      @Inject(LeaderService) readonly leaders!: LeaderService;

      @OnElected('job')
      override async elected(term: Term) {
        this.calls.push(['elected', term]);
        if (this.calls.length === 1) await this.leaders.resign('job');
      }
    }
    const one = await apps.start({ providers: [Resigning] }, { participantId: 'one' });
    await expect.poll(() => one.get(Resigning).names).toBe('elected,resigned,elected');
    const app = await apps.start({ providers: [Listening] }, { participantId: 'other' });
    await untilCandidates(one.get(LeaderService), 'job', ['one', 'other']);
    await app.close();
    expect(app.get(Listening).names).toBe('');
  });

  it('are called when the session is lost, and before a shutdown completes', async () => {
    const app = await apps.start({ providers: [Listening] });
    const listening = app.get(Listening);
    await expect.poll(() => listening.names).toBe('elected');
    await loseSession(zk, app.client);
    await expect.poll(() => listening.names).toBe('elected,resigned,elected');
    await app.close();
    expect(listening.names).toBe('elected,resigned,elected,resigned');
  });

  it('may be used several times on one method, and beside other decorators', async () => {
    const calls: string[] = [];
    @Injectable()
    class Jobs {
      @OnElected('first')
      @OnElected('second')
      @OnResigned('first')
      both(term: Term) {
        calls.push(`${term.election} ${term.active}`);
      }

      @OnElected('first')
      @LeaderOnly('first')
      @DistributedLock('warm')
      async above(): Promise<void> {
        calls.push('above');
      }

      @DistributedLock('warm')
      @OnElected('first')
      async below(): Promise<void> {
        calls.push('below');
      }
    }
    const app = await apps.start({ providers: [Jobs] });
    const expected = ['above', 'below', 'first true', 'second true'];
    await expect.poll(() => calls.toSorted()).toEqual(expected);
    await app.close();
    expect(calls.toSorted()).toEqual([
      'above',
      'below',
      'first false',
      'first true',
      'second true',
    ]);
  });

  it('log what a method throws or rejects with, without other effects', async () => {
    const error = vi.spyOn(Logger.prototype, 'error').mockImplementation(() => {});
    const calls: string[] = [];
    @Injectable()
    class Jobs {
      @OnElected('job')
      async rejects() {
        throw new Error('first');
      }
      @OnElected('job')
      throws() {
        throw new Error('second');
      }
      @OnElected('job')
      last() {
        calls.push('last');
      }
      @OnResigned('job')
      async resigned() {
        throw new Error('third');
      }
    }
    const app = await apps.start({ providers: [Jobs] });
    const leaders = app.get(LeaderService);
    await untilLeading(leaders, 'job');
    await expect.poll(() => error.mock.calls.length).toBe(2);
    const lines = () => error.mock.calls.map(([line]) => String(line)).sort();
    expect(lines()).toEqual([
      '@OnElected Jobs.rejects failed: Error: first',
      '@OnElected Jobs.throws failed: Error: second',
    ]);
    expect([calls, leaders.isLeader('job')]).toEqual([['last'], true]);
    await app.close();
    expect(lines()).toContain('@OnResigned Jobs.resigned failed: Error: third');
  });

  it('are found on controllers, factory results and providers with two tokens, and are called once each', async () => {
    class Made extends Listening {}
    @Controller()
    class Routes extends Listening {}
    const app = await apps.start({
      controllers: [Routes],
      providers: [
        Listening,
        { provide: 'alias', useExisting: Listening },
        { provide: 'made', useFactory: () => new Made() },
        // A function with a prototype of its own, unlike an arrow function.
        {
          provide: 'function',
          useFactory: function make() {
            return new Made();
          },
        },
        { provide: 'async', useFactory: async () => new Made() },
        { provide: 'value', useValue: new Made() },
      ],
    });
    const tokens = [Routes, Listening, 'alias', 'made', 'function', 'async', 'value'];
    const names = () => tokens.map((token) => app.get<Listening>(token).names);
    await expect.poll(names).toEqual(tokens.map(() => 'elected'));
    await app.close();
    expect(names()).toEqual(tokens.map(() => 'elected,resigned'));
  });

  it('listen on the connection that they name', async () => {
    const namespace = zk.path('stock');
    let path: string | undefined;
    @Injectable()
    class Jobs {
      @OnElected('job', { connection: 'stock' })
      elected(term: Term) {
        ({ path } = term);
      }
    }
    const app = await apps.start({
      imports: [ZkModule.forRoot(apps.options({ name: 'stock', namespace }))],
      providers: [Jobs],
    });
    await expect.poll(() => path).toBe(`${namespace}/elections/job`);
    expect(app.get<LeaderService>(getLeaderServiceToken('stock')).isLeader('job')).toBe(true);
    expect(await app.get(LeaderService).participants('job')).toEqual([]);
  });

  it('are not called on a guard that a decorator names, which is no provider for Nest', async () => {
    @Injectable()
    class Guarding extends Listening {
      canActivate() {
        return true;
      }

      @OnElected('guarded')
      started() {
        this.calls.push(['started', currentTerm()!]);
      }
    }
    @Controller()
    @UseGuards(Guarding)
    class Guarded {}
    const app = await apps.start({ controllers: [Guarded], providers: [Listening] });
    await expect.poll(() => app.get(Listening).names).toBe('elected');
    expect(await app.get(LeaderService).participants('guarded')).toEqual([]);
  });

  it('are first called when all modules are ready', async () => {
    const gate = new Gate();
    const events: string[] = [];
    @Injectable()
    class Jobs implements OnApplicationBootstrap {
      onModuleInit() {
        events.push('ready');
      }
      onApplicationBootstrap() {
        return gate.reached;
      }
      @OnElected('job')
      elected() {
        events.push('elected');
        void gate.pass();
      }
    }
    await apps.start({ providers: [Jobs] });
    expect(events).toEqual(['ready', 'elected']);
  });
});

describe('an application does not start, and joins no election,', () => {
  it.each([
    ['request', Scope.REQUEST],
    ['transient', Scope.TRANSIENT],
  ])('if a listener is in a %s-scoped provider', async (_, scope) => {
    @Injectable({ scope })
    class Jobs {
      @OnElected('job')
      elected() {}
    }
    @Injectable()
    class Owner {
      constructor(readonly jobs: Jobs) {}
    }
    const start = apps.start({ providers: [Jobs, Owner] }, { elections: ['early'] });
    await expect(start).rejects.toThrow(MisuseError);
    await expect(start).rejects.toThrow(/@OnElected on Jobs\.elected.*default scope/s);
    const observer = (await apps.start({})).get(LeaderService);
    expect(await observer.participants('job')).toEqual([]);
    expect(await observer.participants('early')).toEqual([]);
  });

  it('if a listener names a connection that does not exist', async () => {
    @Injectable()
    class Jobs {
      @OnResigned('job', { connection: 'stock' })
      resigned() {}
    }
    await expect(apps.start({ providers: [Jobs] })).rejects.toThrow(
      /@OnResigned: add ZkModule\.forRoot\(.*name: "stock"/s,
    );
  });
});
