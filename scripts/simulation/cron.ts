import { setTimeout as sleep } from 'node:timers/promises';
import { Injectable, type Type } from '@nestjs/common';
import { ScheduleModule } from '@nestjs/schedule';
import type { History } from './history.js';
import { NAMESPACE, startModule } from './nest-jobs.js';
import { checkLeft } from './properties.js';
import { runWorkload } from './run-seed.js';
import { replyTime, type Setting } from './setting.js';
import type { Library, RunSeed } from './types.js';
import type { JobContext, Program, Workload } from './workload.js';

/*
 * The workload of cron jobs: the instances of an application run two jobs on their leader, with both values of `missed`. Their
 * clocks differ, and are set forward and back. Leaders resign at random.
 */

type World = import('nestjs-zookeeper/testing').World;

const ELECTION = 'cron';
/** The names of the jobs, which are the values of `missed`. */
const POLICIES = ['skip', 'once'] as const;
type Policy = (typeof POLICIES)[number];
/** The milliseconds between two ticks: longer than the time until the next leader, so that some ticks are missed. */
const PERIOD: Readonly<Record<Policy, number>> = { skip: 1_000, once: 2_000 };
/** The greatest number of milliseconds by which a clock differs, and by which it is set. */
const SKEW = 3_000;
/** The greatest number of milliseconds for which a job runs. */
const RUN_TIME = 700;

/** The runs of one simulation, and the claims that elections led to. */
class Runs {
  readonly #started = new Map<string, string>();

  start(job: Policy, tick: Date, { history, incarnation, world }: JobContext): void {
    history.operations++;
    const id = `${job} at ${tick.toISOString()}`;
    const how = `${incarnation.name} at ${world.now.toFixed(1)} ms`;
    const earlier = this.#started.get(id);
    if (earlier) {
      const why = `${id} was started by ${earlier}, and again by ${how}`;
      history.recordViolation('no tick is started twice', why);
    }
    if (tick.getTime() % PERIOD[job] !== 0) {
      history.recordViolation('the tick of a run is a time of its expression', `${id}: ${how}`);
    }
    this.#started.set(id, how);
  }
}

/** Runs cron jobs under the faults of one seed, and checks which ticks were started. */
export const runCron: RunSeed = (library, options) => {
  const runs = new Runs();
  const Jobs = defineJobs(library);
  return runWorkload(
    {
      adjust: (setting: Setting) => ({
        ...setting,
        processes: setting.processes.map((each) => ({ ...each, nest: true, onlyReads: false })),
      }),
      start: (context) => startJobs(Jobs, runs, context),
      workAfterRecovery: 2_000,
      checkEnd: (world: World, history: History, workload: Workload, setting: Setting) =>
        checkLeft(world, history, workload, setting),
    },
    library,
    options,
  );
};

interface CronJobs {
  act: (job: Policy, tick: Date) => Promise<void>;
}

function defineJobs({ schedule }: Library): Type<CronJobs> {
  const { CronOnLeader } = schedule;

  @Injectable()
  class DecoratedJobs implements CronJobs {
    act: CronJobs['act'] = async () => {};

    @CronOnLeader('* * * * * *', { name: 'skip', missed: 'skip' })
    async skip(tick: Date): Promise<void> {
      await this.act('skip', tick);
    }

    // Its missed tick and its next one may be claimed at the same time.
    @CronOnLeader('*/2 * * * * *', { name: 'once', missed: 'once', waitForCompletion: false })
    async once(tick: Date): Promise<void> {
      await this.act('once', tick);
    }
  }
  return DecoratedJobs;
}

async function startJobs(Jobs: Type<CronJobs>, runs: Runs, context: JobContext): Promise<Program> {
  const { acceptsWork, library, process, random } = context;
  /** Ends the waits of the program, which would outlive the application. */
  const closed = new AbortController();
  const pause = (ms: number) => sleep(ms, undefined, closed).catch(() => {});
  const step = () => process.stepClock(Math.round(random.between(-SKEW, SKEW)));
  step();
  const metadata = { imports: [ScheduleModule.forRoot()], providers: [Jobs] };
  const { module, client } = await startModule(context, metadata);
  module.get(Jobs).act = async (job, tick) => {
    runs.start(job, tick, context);
    await pause(random.between(0, RUN_TIME));
  };
  const leaders = module.get(library.nest.LeaderService);
  leaders.changes(ELECTION).subscribe(({ term }) => {
    if (term) void checkElection(term, pause, context);
  });
  const disturb = async () => {
    while (acceptsWork() && !closed.signal.aborted) {
      await pause(random.between(300, 2_000));
      if (random.chance(0.3)) step();
      if (random.chance(0.3)) await leaders.resign(ELECTION);
    }
  };
  const close = () => {
    closed.abort();
    return module.close();
  };
  return { client, finished: disturb(), leaveElections: close, close };
}

/** Checks that a leader that keeps its connection claims the latest tick of the job `once` soon after its election. */
async function checkElection(
  term: import('nestjs-zookeeper').Term,
  pause: (ms: number) => Promise<void>,
  { history, incarnation, isFaultFree, setting, world }: JobContext,
): Promise<void> {
  const elected = world.now;
  const tick = Math.floor(Date.now() / PERIOD.once) * PERIOD.once;
  // A read, two writes and their retries.
  await pause(4 * replyTime(setting));
  if (!term.active || !isFaultFree(elected, world.now)) return;
  const [claim] = world
    .children(`${NAMESPACE}/cron/${ELECTION}`)
    .filter(({ path }) => path.endsWith('/once'));
  if (claim && Number(claim.data.toString()) >= tick) return;
  const latest = claim ? new Date(Number(claim.data.toString())).toISOString() : 'none';
  const why = `${incarnation.name} leads since ${elected.toFixed(1)} ms; the tick ${new Date(tick).toISOString()} is not claimed, the latest one is ${latest}`;
  history.recordViolation("a leader claims the latest tick of a job with missed: 'once'", why);
}
