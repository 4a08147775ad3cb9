import { setTimeout as delay } from 'node:timers/promises';
import { inspect } from 'node:util';
import { Injectable, Logger } from '@nestjs/common';
import { Cron, CronExpression, Interval, ScheduleModule, Timeout } from '@nestjs/schedule';
import { schedule } from 'node-cron';
import {
  BadOptionError,
  currentTerm,
  DistributedLock,
  LeaderOnly,
  LeaderService,
  LockRunCoordinator,
  LockService,
} from 'nestjs-zookeeper';
import { CronOnLeader } from 'nestjs-zookeeper/schedule';
import { describe, expect, vi } from 'vitest';
import { useApps } from '../../support/nest-apps.js';
import { useServer } from '../../support/servers.js';
import { afterEach, currentWorld, it } from '../../support/virtual-time.js';

const zk = useServer();
const apps = useApps(zk);
afterEach(() => vi.restoreAllMocks());

describe('@CronOnLeader', () => {
  it('runs on the leader only, and on the next leader after it has resigned', async () => {
    const ran: string[] = [];
    let notify = () => {};
    const untilRun = () => new Promise<void>((resolve) => (notify = resolve));

    @Injectable()
    class Job {
      @CronOnLeader(CronExpression.EVERY_SECOND, { election: 'job', name: 'job' })
      async run() {
        ran.push(currentTerm()!.participantId);
        notify();
      }
    }
    const metadata = { imports: [ScheduleModule.forRoot()], providers: [Job] };
    const { one, other } = await apps.leaderAndFollower(metadata);
    await untilRun();
    await untilRun();
    expect(new Set(ran)).toEqual(new Set(['one']));
    await one.get(LeaderService).resign('job');
    await other.get(LeaderService).latch('job').await();
    ran.length = 0;
    await untilRun();
    expect(ran).toEqual(['other']);
  });

  it.each([
    [{}, 1],
    [{ waitForCompletion: false }, 3],
  ])(
    'begins no run while an earlier one lasts, unless the options say so: %o',
    async (options, runs) => {
      let began = 0;

      @Injectable()
      class Job {
        @CronOnLeader(CronExpression.EVERY_SECOND, { election: 'long', ...options })
        async run() {
          began++;
          await currentWorld().sleep(3_500);
        }
      }
      const app = await apps.start({ imports: [ScheduleModule.forRoot()], providers: [Job] });
      await app.get(LeaderService).latch('long').await();
      await expect.poll(() => began).toBe(1);
      await currentWorld().sleep(2_500);
      expect(began).toBe(runs);
    },
  );

  it('leaves @Interval and @Timeout to @LeaderOnly and @DistributedLock', async () => {
    const ran: string[] = [];

    @Injectable()
    class Jobs {
      @Interval(100)
      @LeaderOnly('job')
      async repeat() {
        ran.push(`repeated by ${currentTerm()!.participantId}`);
      }

      @Timeout(100)
      @DistributedLock('once', { wait: 0, onBusy: 'skip', holdAtLeast: 5_000 })
      async once(): Promise<void> {
        ran.push('once');
      }
    }
    const metadata = { imports: [ScheduleModule.forRoot()], providers: [Jobs] };
    await apps.leaderAndFollower(metadata);
    await currentWorld().sleep(1_000);
    expect(new Set(ran)).toEqual(new Set(['repeated by one', 'once']));
    expect(ran.filter((each) => each === 'once')).toHaveLength(1);
  });

  it("takes part in the election 'cron' by default", async () => {
    @Injectable()
    class Job {
      @CronOnLeader(CronExpression.EVERY_YEAR)
      async run() {}
    }
    const app = await apps.start({ imports: [ScheduleModule.forRoot()], providers: [Job] });
    await app.get(LeaderService).latch('cron').await();
    expect(await app.get(LeaderService).participants('cron')).toHaveLength(1);
  });

  it('refuses an unusable election', () => {
    expect(() => CronOnLeader('* * * * *', '')({}, 'run', { value: async () => {} })).toThrow(
      BadOptionError,
    );
  });
});

it('a locked job that waits at the shutdown logs one line, without a stack', async () => {
  const logged: unknown[] = [];
  vi.spyOn(Logger.prototype, 'error').mockImplementation((line) => void logged.push(line));
  @Injectable()
  class Job {
    @Cron(CronExpression.EVERY_SECOND)
    @DistributedLock('job')
    async run() {}
  }
  const lease = await (await apps.start({})).get(LockService).acquire('job');
  const app = await apps.start({ imports: [ScheduleModule.forRoot()], providers: [Job] });
  await delay(1_100);
  await app.close();
  await lease.release();
  expect(logged.map((error) => inspect(error).split('\n').slice(0, 2))).toEqual([
    [
      '[ShuttingDownError: lock "job" is refused: the application is shutting down] {',
      "  key: 'job',",
    ],
  ]);
});

describe('a LockRunCoordinator', () => {
  it('runs each time of a task of node-cron on one instance', async () => {
    const started = [await apps.start({}), await apps.start({}), await apps.start({})];
    const runs: string[] = [];
    const tasks = started.map((app) =>
      schedule('* * * * * *', ({ date }) => void runs.push(date.toISOString().slice(0, 19)), {
        name: 'report',
        distributed: true,
        runCoordinator: new LockRunCoordinator(app.get(LockService)),
      }),
    );
    await expect.poll(() => runs.length, { timeout: 10_000 }).toBeGreaterThanOrEqual(3);
    await Promise.all(tasks.map((task) => task.destroy()));
    expect(new Set(runs).size).toBe(runs.length);
  });

  it('keeps the lock of a time for the lease of the task, also after the run', async () => {
    const defaults = { holdAtMost: 20_000 };
    const [one, other] = [await apps.start({}, { defaults }), await apps.start({})];
    const [first, second] = [one, other].map((app) => new LockRunCoordinator(app.get(LockService)));
    expect(await first!.shouldRun('report:1', 60_000)).toBe(true);
    first!.onComplete('report:1');
    expect(await second!.shouldRun('report:1', 60_000)).toBe(false);
    expect(await second!.shouldRun('report:2', 0)).toBe(true);
    second!.onComplete('report:2');
    await expect.poll(() => first!.shouldRun('report:2', 0)).toBe(true);
    first!.onComplete('report:2');
  });
});
