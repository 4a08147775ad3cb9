import { applyDecorators } from '@nestjs/common';
import { Cron, type CronOptions } from '@nestjs/schedule';
import { checkRecord } from '../client/validation.js';
import { checkArguments } from '../decorators/decorate-method.js';
import type { LockableMethod, MethodDecoratorFor } from '../decorators/decorator-types.js';
import { LeaderOnly, type LeaderOnlyOptions } from '../decorators/leader-only.decorator.js';

/**
 * Options of `@CronOnLeader`: those of `@Cron`, the election, and the `name` of the ZkModule connection.
 *
 * @publicApi
 */
export type CronOnLeaderOptions = CronOptions & {
  /** The name of the election. One instance runs all jobs that name no election. Default `'cron'`. */
  election?: string | undefined;
} & Pick<LeaderOnlyOptions, 'connection'>;

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
 * @throws BadOptionError for an unusable name of the election or connection
 * @publicApi
 */
export function CronOnLeader<M extends LockableMethod>(
  time: string | Date,
  election: string | CronOnLeaderOptions = {},
): MethodDecoratorFor<M> {
  checkArguments('@CronOnLeader', arguments, ['time', '{ election, … }']);
  if (typeof election !== 'string') checkRecord(election);
  const {
    election: name = 'cron',
    connection,
    ...options
  } = typeof election === 'string' ? { election } : election;
  const cron = { waitForCompletion: true, ...options } as CronOptions;
  return applyDecorators(
    Cron(time, cron),
    LeaderOnly({ election: name, connection }),
  ) as MethodDecoratorFor<M>;
}
