import { Injectable, Logger, type Type } from '@nestjs/common';
import { type CronOptions, ScheduleModule } from '@nestjs/schedule';
import { BadOptionError, LeaderService } from 'nestjs-zookeeper';
import { CronOnLeader } from 'nestjs-zookeeper/schedule';
import { FakeLocks, type SimulatedProcess } from 'nestjs-zookeeper/testing';
import { Test } from '@nestjs/testing';
import { describe, expect, vi } from 'vitest';
import { useApps } from '../../support/nest-apps.js';
import { useServer } from '../../support/servers.js';
import { currentWorld, it } from '../../support/virtual-time.js';

const apps = useApps(useServer());
const SESSION_TIMEOUT = 4_000;

type Missed = 'skip' | 'once';

/** Jobs that record their ticks, in seconds. */
function jobs(
  time: string,
  missed: Missed,
  started: number[],
  work = async () => {},
  options: CronOptions = {},
): Type {
  @Injectable()
  class Jobs {
    @CronOnLeader(time, { ...options, name: 'report', election: 'reports', missed } as never)
    async report(tick: Date): Promise<void> {
      started.push(tick.getTime() / 1000);
      await work();
    }
  }
  return Jobs;
}

async function startOn(process: SimulatedProcess, Jobs: Type) {
  const metadata = { imports: [ScheduleModule.forRoot()], providers: [Jobs] };
  const options = { participantId: process.name, sessionTimeout: SESSION_TIMEOUT };
  return process.run(() => apps.start(metadata, options, process));
}

async function untilLeading(app: Awaited<ReturnType<typeof startOn>>, process: SimulatedProcess) {
  const leads = () => process.run(async () => app.get(LeaderService).isLeader('reports'));
  await expect.poll(leads).toBe(true);
}

/** Resolves at the next such second of a virtual minute. */
async function untilSecond(second: number): Promise<void> {
  const world = currentWorld();
  await world.sleep(60_000 - ((world.now - second * 1_000 + 60_000) % 60_000));
}

describe.each(['skip', 'once'] as const)("@CronOnLeader with missed: '%s'", (missed) => {
  it('starts no second twice on skewed clocks, after a crash, a restart and a clock that is set back', async () => {
    const started: number[] = [];
    const world = currentWorld();
    const Jobs = jobs('* * * * * *', missed, started);
    const [one, two, three] = ['one', 'two', 'three'].map((name) => world.process(name)) as [
      SimulatedProcess,
      SimulatedProcess,
      SimulatedProcess,
    ];
    two.stepClock(-7_300);
    three.stepClock(3_700);
    await untilLeading(await startOn(one, Jobs), one);
    await startOn(two, Jobs);
    await startOn(three, Jobs);
    await world.sleep(10_500);
    one.stepClock(-5_000);
    await world.sleep(10_000);
    one.crash({ silently: true });
    await world.sleep(20_000);
    two.crash({ silently: true });
    await startOn(world.process('four'), Jobs);
    await world.sleep(20_000);
    three.crash({ silently: true });
    await world.sleep(20_000);
    expect(started.length).toBeGreaterThan(30);
    expect(started).toEqual([...new Set(started)]);
  });

  it('starts a minute at which nobody led as its policy says', async () => {
    const started: number[] = [];
    const world = currentWorld();
    const Jobs = jobs('0 * * * * *', missed, started);
    const [one, two] = [world.process('one'), world.process('two')];
    await untilSecond(30);
    await untilLeading(await startOn(one, Jobs), one);
    await startOn(two, Jobs);
    await untilSecond(59);
    // The first leader of all has missed nothing, although earlier minutes have no claim.
    expect(started).toEqual([]);
    await untilSecond(30);
    expect(started).toHaveLength(1);
    await untilSecond(59);
    one.crash({ silently: true });
    await untilSecond(30);
    // The second process leads since about second 3.
    expect(started).toHaveLength(missed === 'once' ? 2 : 1);
    await untilSecond(30);
    expect(started).toHaveLength(missed === 'once' ? 3 : 2);

    two.crash({ silently: true });
    await world.sleep(5 * 60_000);
    started.length = 0;
    await startOn(world.process('three'), Jobs);
    await world.sleep(10_000);
    expect(started).toHaveLength(missed === 'once' ? 1 : 0);
  });
});

it('starts no run while another one lasts, also not for a missed tick', async () => {
  const started: number[] = [];
  const world = currentWorld();
  const Jobs = jobs('*/10 * * * * *', 'once', started, () => world.sleep(25_000));
  const one = world.process('one');
  await untilSecond(35);
  await untilLeading(await startOn(one, Jobs), one);
  await world.sleep(60_000);
  expect(started.map((second) => second - started[0]!)).toEqual([0, 30]);
});

it.each([
  [{ timeZone: 'Asia/Tokyo' }, 9, 30],
  [{ timeZone: 'Europe/Berlin' }, 1, 30],
  [{ utcOffset: 540 }, 9, 30],
  [{ utcOffset: -330 }, 19, 0],
])('claims the ticks of the time zone of %o', async (zone, hour, minute) => {
  const started: number[] = [];
  const world = currentWorld();
  // Half an hour after the virtual midnight, which is one of UTC.
  const midnight = await world.process('clock').run(async () => Date.now() - world.now);
  expect(Math.round(midnight) % 86_400_000).toBe(0);
  const Jobs = jobs(`0 ${minute} ${hour} * * *`, 'once', started, undefined, zone as CronOptions);
  const one = world.process('one');
  await untilLeading(await startOn(one, Jobs), one);
  await world.sleep(40 * 60_000);
  expect(started).toEqual([Math.round(midnight) / 1000 + 30 * 60]);
  one.crash({ silently: true });
  const two = world.process('two');
  await untilLeading(await startOn(two, Jobs), two);
  await world.sleep(60_000);
  expect(started).toHaveLength(1);
});

it('starts no missed tick of a job that is disabled', async () => {
  const started: number[] = [];
  const world = currentWorld();
  const Jobs = jobs('0 * * * * *', 'once', started, undefined, { disabled: true });
  for (const name of ['one', 'two', 'three']) {
    const each = world.process(name);
    await untilLeading(await startOn(each, Jobs), each);
    await world.sleep(130_000);
    each.crash({ silently: true });
    await world.sleep(10_000);
  }
  expect(started).toEqual([]);
});

it.each([10, 60, 95])('starts a tick %i ms after the first election', async (early) => {
  const started: number[] = [];
  const world = currentWorld();
  const Jobs = jobs('0 * * * * *', 'once', started);
  const one = world.process('one');
  await untilSecond(0);
  await world.sleep(60_000 - early - 15);
  await startOn(one, Jobs);
  await world.sleep(30_000);
  expect(started).toHaveLength(1);
});

/** Returns an application with fake locks whose job pushes its ticks, one each second. */
function everySecondWithFakeLocks(started: number[]) {
  const providers = [jobs('* * * * * *', 'skip', started), ...new FakeLocks().providers];
  return Test.createTestingModule({ imports: [ScheduleModule.forRoot()], providers }).compile();
}

it('starts each tick once with FakeLocks', async () => {
  const started: number[] = [];
  const module = await everySecondWithFakeLocks(started);
  await module.init();
  await currentWorld().sleep(3_500);
  await module.close();
  expect(started).toHaveLength(3);
});

it('lets one of two calls of a term claim a tick', async () => {
  const one = currentWorld().process('one');
  const app = await startOn(one, jobs('0 0 1 1 *', 'skip', []));
  await untilLeading(app, one);
  const leaders = app.get(LeaderService);
  const claim = (tick: number) =>
    one.run(() => leaders.claimTick(leaders.term('reports')!, 'reports', 'job', tick, true));
  // The first call creates the znode of the claims.
  expect(await claim(1)).toBe(true);
  expect((await Promise.all([claim(2), claim(2)])).toSorted()).toEqual([false, true]);
});

it('starts the next tick after a claim that failed', async () => {
  const started: number[] = [];
  const module = await everySecondWithFakeLocks(started);
  const logged = vi.spyOn(Logger.prototype, 'error').mockImplementation(() => {});
  vi.spyOn(module.get(LeaderService), 'claimTick').mockRejectedValueOnce(new Error('planned'));
  await module.init();
  await currentWorld().sleep(3_500);
  await module.close();
  logged.mockRestore();
  expect(started).toHaveLength(2);
});

it.each([
  ['* * * * *', { missed: 'skip' }, 'name of @CronOnLeader, which missed needs,'],
  [
    '* * * * *',
    { missed: 'twice', name: 'job' },
    "missed of @CronOnLeader must be 'skip' or 'once'",
  ],
  [new Date(), { missed: 'once', name: 'job' }, 'time of @CronOnLeader with missed'],
] as const)('refuses %s with %o', (time, options, message) => {
  const decorate = () => CronOnLeader(time, options as never);
  expect(decorate).toThrow(BadOptionError);
  expect(decorate).toThrow(message);
});
