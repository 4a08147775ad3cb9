import { applyDecorators } from '@nestjs/common';
import { Cron, type CronOptions, SchedulerRegistry } from '@nestjs/schedule';
import { BadOptionError } from '../client/errors.js';
import { sleep } from '../client/sleep.js';
import {
  checkRecord,
  NON_EMPTY_STRING,
  oneOf,
  checkValue,
  uncheckedRules,
} from '../client/validation.js';
import { checkArguments, decorateMethod } from '../decorators/decorate-method.js';
import type { LockableMethod, MethodDecoratorFor } from '../decorators/decorator-types.js';
import { OnElected } from '../decorators/election-listeners.js';
import { injectedService, injectService } from '../decorators/injected-service.js';
import {
  LeadershipRequirement,
  type LeaderOnlyOptions,
} from '../decorators/leader-only.decorator.js';
import type { MethodCall } from '../decorators/requirement.js';
import type { LockKeys } from '../services/keys.js';
import { type LeaderService, TermGuard } from '../services/leader.service.js';

/**
 * Options of `@CronOnLeader`: those of `@Cron`, the election, and the `name` of the ZkModule connection.
 *
 * @publicApi
 */
export type CronOnLeaderOptions = CronOptions & {
  /** The name of the election. One instance runs all jobs that name no election. Default `'cron'`. */
  election?: string | undefined;
  /**
   * Starts the job at most once at each time (tick) of the expression, also after a change of the leader, a restart or a clock
   * that was set back. The leader claims the tick in ZooKeeper before the job starts, and the method gets the tick as a `Date`.
   * A call of the method by other code claims the latest tick too.
   *
   * `'skip'`: a tick at which nobody led is not run. `'once'`: the next leader starts the latest tick that nobody has claimed,
   * when it is elected, unless the job is disabled or was stopped. Requires the `name` of the job, which the claim has, and a
   * transport with transactions. Default: ticks are not claimed.
   */
  missed?: 'skip' | 'once' | undefined;
} & Pick<LeaderOnlyOptions, 'connection'>;

/** `@Cron` checks the values of its options, but ignores an unknown name. */
const RULES = uncheckedRules<keyof CronOnLeaderOptions>(
  'election',
  'connection',
  'missed',
  'name',
  'timeZone',
  'utcOffset',
  'unrefTimeout',
  'waitForCompletion',
  'disabled',
  'threshold',
  'initialDelay',
);

/**
 * Runs the method at the times of a cron expression, on the instance that leads the election only. The same as `@Cron`
 * with `waitForCompletion: true` and `@LeaderOnly`: by default the leader skips a time while an earlier run lasts, other instances
 * skip each time. `currentTerm()` returns the term of the leader. With `missed`, no time is started twice.
 *
 * ```ts
 * @CronOnLeader(CronExpression.EVERY_DAY_AT_3AM, { name: 'report', missed: 'once' })
 * async report() {}
 * ```
 *
 * @param time the cron expression, or the date, as for `@Cron`. With `missed` an expression
 * @param election the name of the election, or options
 * @throws BadOptionError for an unknown option, an unusable name of the election or connection, or `missed` without a `name`
 * @publicApi
 */
export function CronOnLeader<M extends LockableMethod>(
  time: string | Date,
  election: string | CronOnLeaderOptions = {},
): MethodDecoratorFor<M> {
  checkArguments('@CronOnLeader', arguments, ['time', '{ election, … }']);
  const given = typeof election === 'string' ? { election } : election;
  checkRecord(given, 'options of @CronOnLeader');
  const { election: name = 'cron', connection, missed, ...options } = given;
  const cron = { waitForCompletion: true, ...options } as CronOptions;
  const leading = { ...given, election: name };
  if (missed !== undefined) checkMissed(time, given);
  const decorate = decorateMethod('@CronOnLeader', 'LeaderService', (target, method) =>
    missed === undefined
      ? new LeadershipRequirement(target, method, leading, '@CronOnLeader', RULES)
      : new TickRequirement(target, method, leading, cron),
  );
  const listeners = missed === 'once' ? [OnElected(name, { connection }) as MethodDecorator] : [];
  return applyDecorators(Cron(time, cron), ...listeners, decorate) as MethodDecoratorFor<M>;
}

function checkMissed(time: string | Date, { name, missed }: CronOnLeaderOptions): void {
  checkValue('missed of @CronOnLeader', missed, oneOf('skip', 'once'));
  checkValue('name of @CronOnLeader, which missed needs,', name, NON_EMPTY_STRING);
  if (typeof time === 'string') return;
  throw new BadOptionError('time of @CronOnLeader with missed', time, 'a cron expression');
}

/** Requires that this instance leads an election, and that its term has claimed the latest tick of the job. */
class TickRequirement extends LeadershipRequirement {
  private readonly registry: symbol;
  /** The instances whose method runs. */
  private readonly running = new Set<unknown>();

  constructor(
    target: object,
    method: string | symbol,
    options: LeaderOnlyOptions,
    private readonly cron: CronOptions,
  ) {
    super(target, method, options, '@CronOnLeader', RULES);
    this.registry = injectService(target, {
      // Another name than that of the LeaderService, which is injected too.
      decorator: '@CronOnLeader with missed',
      service: 'SchedulerRegistry',
      serviceToken: SchedulerRegistry,
      connection: this.connection,
      module: 'ScheduleModule.forRoot()',
    });
  }

  override async acquire(
    service: LeaderService,
    key: LockKeys,
    call: MethodCall,
  ): Promise<TermGuard | undefined> {
    const guard = await super.acquire(service, key, call);
    if (!guard) return undefined;
    const { self, args } = call;
    const { term } = guard;
    const { name, waitForCompletion } = this.cron;
    // A run for a missed tick is not one of the runs that the schedule itself waits for.
    if (waitForCompletion && this.running.has(self)) return undefined;
    this.running.add(self);
    const ended = () => void this.running.delete(self);
    try {
      const registry = injectedService(self, this.registry, this) as SchedulerRegistry;
      const isElected = args[0] === term;
      // This instance may be elected before the schedule has made its jobs.
      while (isElected && !registry.doesExist('cron', name!)) {
        await sleep(UNTIL_JOBS, { signals: [guard.signal] });
      }
      const { cronTime, isActive } = registry.getCronJob(name!);
      // An election starts no job that is disabled or was stopped.
      const now = Date.now() + (isElected ? 0 : EARLY);
      const tick = isElected && !isActive ? undefined : latestTick(cronTime, now);
      const job = [term, this.election, name!] as const;
      // Where no tick was ever claimed, a leader that is elected has missed nothing.
      if (tick !== undefined && (await service.claimTick(...job, tick, !isElected))) {
        // The arguments that the schedule and the election pass are not meant for the job.
        args.splice(0, args.length, new Date(tick));
        return new TickGuard(term, ended);
      }
    } catch (error) {
      ended();
      throw error;
    }
    ended();
    return undefined;
  }
}

class TickGuard extends TermGuard {
  constructor(
    term: TermGuard['term'],
    private readonly ended: () => void,
  ) {
    super(term);
  }

  override async release(): Promise<void> {
    this.ended();
  }
}

/** Poll interval for the job, milliseconds. */
const UNTIL_JOBS = 100;
/** Milliseconds. A timer of Node may fire early, by less than this. Two ticks are at least a second apart. */
const EARLY = 100;
/** Milliseconds. The latest tick is searched in this time; an expression may have none in it. */
const LONGEST_SEARCH = 8 * 366 * 86_400_000;
/** Milliseconds. Ticks are whole seconds. */
const SECOND = 1_000;

type CronTime = ReturnType<SchedulerRegistry['getCronJob']>['cronTime'];

/**
 * Returns the last time of an expression that is not after `now`; undefined if it has none. The package cron only computes
 * the next time after a given one, so this searches for the latest second whose next time is not after `now`.
 */
function latestTick(cronTime: CronTime, now: number): number | undefined {
  const zone = zoneOf(cronTime);
  const next = (from: number) => cronTime.getNextDateFrom(new Date(from), zone).toMillis();
  let until = Math.floor(now / SECOND) * SECOND;
  let width = SECOND;
  while (next(until - width) > now) {
    width *= 2;
    if (width > LONGEST_SEARCH) return undefined;
  }
  // The tick after `from` is not after `now`, the one after `until` is.
  let from = until - width;
  while (until - from > SECOND) {
    const middle = Math.floor((from + until) / 2 / SECOND) * SECOND;
    if (next(middle) > now) until = middle;
    else from = middle;
  }
  return next(from);
}

/** Returns the time zone of a job. Without it, `getNextDateFrom` takes that of the process. */
function zoneOf({ timeZone, utcOffset = 0 }: CronTime): string {
  if (timeZone) return timeZone;
  const minutes = String(Math.abs(utcOffset) % 60).padStart(2, '0');
  return `UTC${utcOffset < 0 ? '-' : '+'}${Math.floor(Math.abs(utcOffset) / 60)}:${minutes}`;
}
