import { applyDecorators } from '@nestjs/common';
import { Cron, type CronOptions } from '@nestjs/schedule';
import { checkRecord, uncheckedRules } from '../client/validation.js';
import { checkArguments, decorateMethod } from '../decorators/decorate-method.js';
import type { LockableMethod, MethodDecoratorFor } from '../decorators/decorator-types.js';
import {
  LeadershipRequirement,
  type LeaderOnlyOptions,
} from '../decorators/leader-only.decorator.js';

/**
 * Options of `@CronOnLeader`: those of `@Cron`, the election, and the `name` of the ZkModule connection.
 *
 * @publicApi
 */
export type CronOnLeaderOptions = CronOptions & {
  /** The name of the election. One instance runs all jobs that name no election. Default `'cron'`. */
  election?: string | undefined;
} & Pick<LeaderOnlyOptions, 'connection'>;

/** `@Cron` checks the values of its options, but ignores an unknown name. */
const RULES = uncheckedRules<keyof CronOnLeaderOptions>(
  'election',
  'connection',
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
 * skip each time. `currentTerm()` returns the term of the leader.
 *
 * ```ts
 * @CronOnLeader(CronExpression.EVERY_MINUTE, 'reminders')
 * async send() {}
 * ```
 *
 * @param time the cron expression, or the date, as for `@Cron`
 * @param election the name of the election, or options
 * @throws BadOptionError for an unknown option, or an unusable name of the election or connection
 * @publicApi
 */
export function CronOnLeader<M extends LockableMethod>(
  time: string | Date,
  election: string | CronOnLeaderOptions = {},
): MethodDecoratorFor<M> {
  checkArguments('@CronOnLeader', arguments, ['time', '{ election, … }']);
  const given = typeof election === 'string' ? { election } : election;
  checkRecord(given, 'options of @CronOnLeader');
  const { election: name = 'cron', connection: _, ...options } = given;
  const cron = { waitForCompletion: true, ...options } as CronOptions;
  const leading = { ...given, election: name };
  return applyDecorators(
    Cron(time, cron),
    decorateMethod(
      '@CronOnLeader',
      'LeaderService',
      (target, method) =>
        new LeadershipRequirement(target, method, leading, '@CronOnLeader', RULES),
    ),
  ) as MethodDecoratorFor<M>;
}
