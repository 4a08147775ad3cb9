import type { ExecutionContext, InjectionToken } from '@nestjs/common';
import { BadOptionError } from '../client/errors.js';
import type { LeaderParticipant } from '../recipes/index.js';
import { NotLeaderError } from '../recipes/index.js';
import type { Holding } from '../services/call-guard.js';
import type { LeaderService } from '../services/leader.service.js';
import { checkKnownOptions } from '../services/service-options.js';
import { checkKey, type LockKeys } from '../services/keys.js';
import { getLeaderServiceToken } from '../zk.tokens.js';
import { checkCalled, decorateMethod } from './decorate-method.js';
import type { LockableMethod, LockDecorator, Skippable } from './decorator-types.js';
import { METHOD_OPTIONS, type MethodCall, MethodSpec } from './requirement.js';

/**
 * A call of a method for leaders alone, on an instance that does not lead.
 *
 * @publicApi
 */
export interface NotLeaderCall {
  readonly election: string;
  /** What the method was called with; empty on a handler, whose pipes have not run yet. */
  readonly args: unknown[];
  /** Of a handler. */
  readonly context: ExecutionContext | undefined;
  /** Who leads, to send the call there: its `id` is what it calls itself (`participantId`). */
  leader(): Promise<LeaderParticipant | undefined>;
}

/**
 * What `@LeaderOnly` takes where the name of the election is not enough.
 *
 * @publicApi
 */
export interface LeaderOnlyOptions {
  election: string;
  /**
   * What a call comes to where this instance does not lead. `'skip'` resolves to undefined: the default
   * everywhere but on handlers, where it is refused, since it would answer success with nothing done.
   * `'throw'`, the default on handlers, rejects with a {@link NotLeaderError}, which a handler answers as
   * 503. The result of a function takes the place of the method's. On a queue's consumer say `'throw'`:
   * a skipped job counts as done. Written out, `'skip'` makes the types demand that the method promises
   * undefined too; left out it does not, since no type tells a handler from another method.
   */
  otherwise?: 'skip' | 'throw' | ((call: NotLeaderCall) => unknown);
  /**
   * What happens when the method has succeeded, but the leadership ended meanwhile, so that another
   * leader may have run beside it: `'throw'`, the default, rejects with the NotLeaderError.
   */
  onLost?: 'throw' | 'ignore';
  /** The `name` of the ZkModule connection to take part on. */
  connection?: string;
}

/**
 * Runs the method only on the instance that leads the election, which every instance with such a
 * method takes part in from its start on.
 *
 * ```ts
 * @Cron(CronExpression.EVERY_MINUTE)
 * @LeaderOnly('close-orders')
 * async closeOrders() {
 *   for (const order of await this.overdue()) {
 *     currentTerm()!.signal.throwIfAborted();
 *     await this.close(order);
 *   }
 * }
 * ```
 *
 * Inside, `currentTerm()` gives the term: its signal aborts when the leadership is lost or given up,
 * its fencing token orders the writes of successive leaders. It does not make calls wait for each
 * other: add `@DistributedLock` for that. Handlers and other decorators are as with
 * {@link DistributedLock}.
 *
 * @publicApi
 */
export function LeaderOnly<M extends LockableMethod>(
  election:
    string | (LeaderOnlyOptions & { otherwise?: Exclude<LeaderOnlyOptions['otherwise'], 'skip'> }),
): LockDecorator<M>;
export function LeaderOnly<M extends LockableMethod>(
  options: LeaderOnlyOptions & { otherwise: 'skip' },
): LockDecorator<M & Skippable<M>>;
export function LeaderOnly(...args: [string | LeaderOnlyOptions]): MethodDecorator {
  checkCalled('@LeaderOnly', args);
  const [election] = args;
  const options = typeof election === 'string' ? { election } : election;
  return decorateMethod(
    '@LeaderOnly',
    'LeaderService',
    (target, method) => new LeaderSpec(target, method, options),
  ) as MethodDecorator;
}

const OPTIONS = [...METHOD_OPTIONS, 'election', 'otherwise'] satisfies (keyof LeaderOnlyOptions)[];

/** That a method runs only where this instance leads an election. */
export class LeaderSpec extends MethodSpec<LeaderService> {
  readonly election: string;
  override readonly needsArguments = false;
  private readonly otherwise: LeaderOnlyOptions['otherwise'];

  constructor(target: object, method: string | symbol, options: LeaderOnlyOptions) {
    super('@LeaderOnly', 'LeaderService', target, method, options ?? {});
    checkKnownOptions(this.named('options'), options, OPTIONS);
    const { election, otherwise } = options;
    checkKey(election, this.named('election'));
    const known = otherwise === undefined || otherwise === 'skip' || otherwise === 'throw';
    if (!known && typeof otherwise !== 'function') {
      throw new BadOptionError(this.named('otherwise'), otherwise, "'skip', 'throw' or a function");
    }
    this.election = election;
    this.otherwise = otherwise;
  }

  override get serviceToken(): InjectionToken<LeaderService> {
    return getLeaderServiceToken(this.connection);
  }

  override get skips(): string | undefined {
    return this.otherwise === 'skip' ? "otherwise: 'skip'" : undefined;
  }

  override keyOf(): string {
    return this.election;
  }

  override async enter(
    service: LeaderService,
    _key: LockKeys,
    { context }: MethodCall,
  ): Promise<Holding | undefined> {
    const { election, otherwise } = this;
    const leading = service.enter(election);
    if (leading) return leading;
    // Somebody waits for a handler's answer: success with nothing done would be a lie.
    if (otherwise === 'throw' || (otherwise === undefined && context)) {
      const message = `${this.label} runs on the leader of election ${JSON.stringify(election)} alone, which this instance is not`;
      throw new NotLeaderError(message, { key: election });
    }
    return undefined;
  }

  override instead(service: LeaderService, _key: LockKeys, { args, context }: MethodCall): unknown {
    const { election, otherwise } = this;
    if (typeof otherwise !== 'function') return this.nothing;
    return otherwise({ election, args, context, leader: () => service.leader(election) });
  }
}
