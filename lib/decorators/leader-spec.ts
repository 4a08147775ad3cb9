import type { InjectionToken } from '@nestjs/common';
import { BadOptionError } from '../client/errors.js';
import { NotLeaderError } from '../recipes/index.js';
import type { Holding } from '../services/holding.js';
import { checkKnownOptions } from '../services/lease-options.js';
import { checkKey, type LockKeys } from '../services/lock-key.js';
import type { LeaderService } from '../services/leader.service.js';
import { getLeaderServiceToken } from '../zk.tokens.js';
import type { LeaderOnlyOptions } from './leader-only.decorator.js';
import { METHOD_OPTIONS, type MethodCall, MethodSpec } from './method-spec.js';

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
