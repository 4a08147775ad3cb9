import type { ExecutionContext, InjectionToken } from '@nestjs/common';
import { checkOptions, rule, type Rules, UNCHECKED } from '../client/validation.js';
import { type LeaderParticipant, NotLeaderError } from '../recipes/index.js';
import { checkKey, type LockKeys } from '../services/keys.js';
import type { LeaderService, TermGuard } from '../services/leader.service.js';
import { getLeaderServiceToken } from '../services/tokens.js';
import { checkArguments, decorateMethod } from './decorate-method.js';
import type {
  LockableMethod,
  MethodDecoratorFor,
  ResultOf,
  SkippingDecorator,
} from './decorator-types.js';
import { METHOD_RULES, type MethodCall, Requirement } from './requirement.js';

/**
 * A call of a `@LeaderOnly` method on an instance that does not lead.
 *
 * @publicApi
 */
export interface NotLeaderCall {
  readonly election: string;
  /** The arguments of the call; empty on a handler, because its pipes have not run yet. */
  readonly args: unknown[];
  /** Only on a handler. */
  readonly context: ExecutionContext | undefined;
  /** Resolves to the leader. Its `id` is its `participantId`. */
  leader(): Promise<LeaderParticipant | undefined>;
}

/**
 * Options of `@LeaderOnly`.
 *
 * @typeParam R what `otherwise` may return
 * @publicApi
 */
export interface LeaderOnlyOptions<R = unknown> {
  /** The name of the election. */
  election: string;
  /**
   * What to do with a call while this instance does not lead. `'skip'`, the default on methods that are no handlers,
   * resolves to undefined; on a handler it is an error, because the handler would answer success although nothing was
   * done. `'throw'`, the default on handlers, rejects with a {@link NotLeaderError}, which a handler answers with 503.
   * The result of a function replaces the result of the method. On a queue consumer use `'throw'`: a skipped job counts
   * as done. An explicit `'skip'` requires by its types that the method may resolve to undefined; the default cannot,
   * because no type distinguishes handlers from other methods. Default: `'throw'` on handlers, else `'skip'`.
   */
  otherwise?: 'skip' | 'throw' | ((call: NotLeaderCall) => R) | undefined;
  /**
   * What to do if the method succeeded but the leadership ended while it ran, so that another leader may
   * have run it at the same time: `'throw'`, the default, rejects with the NotLeaderError.
   */
  onLost?: 'throw' | 'ignore' | undefined;
  /** The `name` of the ZkModule connection for the election. Default: the connection without a name. */
  connection?: string | undefined;
}

/**
 * Runs the method only on the instance that leads the election. Each instance with such a method joins the
 * election when it starts.
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
 * Inside the method, `currentTerm()` returns the term: its signal aborts when the leadership ends, its fencing
 * token orders the writes of successive leaders. Calls on the leader do not exclude each other: add
 * `@DistributedLock` for that. Handlers and other decorators are as with {@link DistributedLock}.
 *
 * @publicApi
 */
export function LeaderOnly<M extends LockableMethod>(
  election:
    | string
    | (LeaderOnlyOptions<ResultOf<M>> & {
        otherwise?: Exclude<LeaderOnlyOptions<ResultOf<M>>['otherwise'], 'skip'>;
      }),
): MethodDecoratorFor<M>;
export function LeaderOnly<M extends LockableMethod>(
  options: LeaderOnlyOptions & { otherwise: 'skip' },
): SkippingDecorator<M>;
export function LeaderOnly(...args: [string | LeaderOnlyOptions]): MethodDecorator {
  checkArguments('@LeaderOnly', args, ['{ election, … }']);
  const [election] = args;
  const options = typeof election === 'string' ? { election } : election;
  return decorateMethod(
    '@LeaderOnly',
    'LeaderService',
    (target, method) => new LeadershipRequirement(target, method, options),
  );
}

const RULES: Rules<LeaderOnlyOptions> = {
  ...METHOD_RULES,
  election: UNCHECKED,
  otherwise: rule(
    "'skip', 'throw' or a function",
    (value: unknown) => value === 'skip' || value === 'throw' || typeof value === 'function',
  ),
};

/** Requires that this instance leads an election. */
export class LeadershipRequirement extends Requirement<LeaderService> {
  readonly election: string;
  override readonly keyFromArguments = false;
  private readonly otherwise: LeaderOnlyOptions['otherwise'];

  constructor(
    target: object,
    method: string | symbol,
    options: LeaderOnlyOptions,
    decorator = '@LeaderOnly',
    rules: Rules<Record<string, unknown>> = RULES,
  ) {
    super(decorator, 'LeaderService', target, method, options ?? {});
    checkOptions(options, rules, this.named('options'), (option) => this.named(option));
    const { election, otherwise } = options;
    checkKey(election, this.named('election'));
    this.election = election;
    this.otherwise = otherwise;
  }

  override get serviceToken(): InjectionToken<LeaderService> {
    return getLeaderServiceToken(this.connection);
  }

  override get skipOption(): string | undefined {
    return this.otherwise === 'skip' ? "otherwise: 'skip'" : undefined;
  }

  override keyOf(): string {
    return this.election;
  }

  override async acquire(
    service: LeaderService,
    _key: LockKeys,
    _call: MethodCall,
  ): Promise<TermGuard | undefined> {
    const { election, otherwise, onHandler } = this;
    const guard = (service as Partial<LeaderService>).enter?.(election);
    const isReal = guard ? typeof guard.held === 'boolean' : service.isLeader?.(election) === false;
    if (!isReal) throw this.mocked();
    if (guard) return guard;
    // A skipped handler would answer success although nothing was done.
    if (otherwise === 'throw' || (otherwise === undefined && onHandler)) {
      const message = `${this.label} runs only on the leader of election ${JSON.stringify(election)}, and this instance is not the leader`;
      throw new NotLeaderError(message, { key: election });
    }
    return undefined;
  }

  override fallback(
    service: LeaderService,
    _key: LockKeys,
    { args, context }: MethodCall,
  ): unknown {
    const { election, otherwise } = this;
    if (typeof otherwise !== 'function') return this.skippedResult;
    return otherwise({ election, args, context, leader: () => service.leader(election) });
  }
}
