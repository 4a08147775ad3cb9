import type { ExecutionContext, InjectionToken } from '@nestjs/common';
import { BadOptionError } from '../client/errors.js';
import { checkOptions, rule, type Rules } from '../client/validation.js';
import type { Entry } from '../recipes/index.js';
import { checkKey, checkKeys, type LockKeys } from '../services/keys.js';
import { isContention, type OptionNaming } from '../services/lease-service.js';
import { abandon } from '../services/lease-tracker.js';
import { checkLockOptions, LOCK_RULES } from '../services/lock.service.js';
import { checkSemaphoreOptions, SEMAPHORE_RULES } from '../services/semaphore.service.js';
import { getLockServiceToken, getSemaphoreServiceToken } from '../services/tokens.js';
import type { LeaseDecoratorOptions } from './decorator-types.js';
import {
  type CallGuard,
  METHOD_RULES,
  type MethodCall,
  MisuseError,
  Requirement,
} from './requirement.js';

/** LockService or SemaphoreService. */
interface LeaseProvider {
  readonly defaultWait: number;
  /** Undefined for a mock. */
  enter?(key: LockKeys, options: object): Promise<Entry | undefined>;
}

/** The differences between `@DistributedLock` and `@DistributedSemaphore`. */
export interface LeaseKind {
  readonly decorator: string;
  readonly service: string;
  readonly rules: Rules<Record<string, unknown>>;
  tokenOf(connection: string): InjectionToken<LeaseProvider>;
  checkKey(key: unknown, what: string): asserts key is LockKeys;
  /** @param keys the key in the decorator; undefined if it is made for each call */
  checkOptions(options: object, keys: unknown, named: OptionNaming): void;
}

export const LOCK: LeaseKind = {
  decorator: '@DistributedLock',
  service: 'LockService',
  rules: LOCK_RULES,
  tokenOf: getLockServiceToken,
  checkKey: checkKeys,
  checkOptions: checkLockOptions,
};

export const SEMAPHORE: LeaseKind = {
  decorator: '@DistributedSemaphore',
  service: 'SemaphoreService',
  rules: SEMAPHORE_RULES,
  // The service receives only keys and options that checkKey and checkOptions accepted.
  tokenOf: getSemaphoreServiceToken as LeaseKind['tokenOf'],
  checkKey,
  checkOptions: (options, _, named) => checkSemaphoreOptions(options, named),
};

/** Where a decorator's key comes from. */
export type KeySource =
  | { from: 'name'; key: LockKeys }
  | { from: 'arguments'; key: (...args: never[]) => unknown }
  | { from: 'context'; key: (context: ExecutionContext) => unknown };

const onBusyRule = rule(
  "'throw', 'skip' or a function that returns an error",
  (value: unknown) => value === 'throw' || value === 'skip' || typeof value === 'function',
);

/** Requires a lock or permits while the method runs. */
export class LeaseRequirement extends Requirement<LeaseProvider> {
  private readonly wait: number | undefined;
  private readonly onBusy: NonNullable<LeaseDecoratorOptions['onBusy']>;
  /** The options for the service. */
  private readonly acquireOptions: object;

  constructor(
    private readonly kind: LeaseKind,
    target: object,
    method: string | symbol,
    private readonly source: KeySource,
    options: LeaseDecoratorOptions,
  ) {
    super(kind.decorator, kind.service, target, method, options ?? {});
    // A signal belongs to one call; a decorator applies to all calls.
    const { signal: _signal, ...rules } = kind.rules;
    const named: OptionNaming = (option) => this.named(option);
    checkOptions(
      options,
      { ...rules, ...METHOD_RULES, onBusy: onBusyRule },
      this.named('options'),
      named,
    );
    const { onBusy = 'throw', onLost: _, connection: __, ...acquireOptions } = options;
    if (source.from === 'name') kind.checkKey(source.key, named('key'));
    kind.checkOptions(acquireOptions, source.key, named);
    this.wait = acquireOptions.wait;
    this.onBusy = onBusy;
    this.acquireOptions = acquireOptions;
    if (this.wait !== undefined) this.checkDefaultWait(this.wait);
  }

  override get serviceToken(): InjectionToken<LeaseProvider> {
    return this.kind.tokenOf(this.connection);
  }

  override get keyFromArguments(): boolean {
    return this.source.from === 'arguments';
  }

  override get skipOption(): string | undefined {
    return this.onBusy === 'skip' ? "onBusy: 'skip'" : undefined;
  }

  override keyOf(call: MethodCall): LockKeys {
    const key = this.makeKey(call);
    this.kind.checkKey(key, this.named('key'));
    return key;
  }

  override async acquire(
    service: LeaseProvider,
    key: LockKeys,
    _call: MethodCall,
    signal: AbortSignal | undefined,
  ): Promise<CallGuard | undefined> {
    this.checkDefaultWait(service.defaultWait);
    try {
      const entry = await service.enter?.(key, { ...this.acquireOptions, signal });
      if (typeof entry?.lease?.held !== 'boolean') throw this.mocked();
      const { lease, run, release } = entry;
      return {
        get held() {
          return lease.held;
        },
        get signal() {
          return lease.signal;
        },
        run,
        release: (abandoned) => (abandoned ? abandon(entry) : release()),
      };
    } catch (error) {
      const { onBusy } = this;
      if (!isContention(error) || onBusy === 'throw') throw error;
      if (onBusy === 'skip') return undefined;
      throw onBusy(error.key ?? String(key));
    }
  }

  override fallback(): unknown {
    return this.skippedResult;
  }

  /** Checks that `onBusy: 'skip'` has a finite wait, its own or the connection's default. */
  checkDefaultWait(defaultWait: number): void {
    const wait = this.wait ?? defaultWait;
    if (!this.skipOption || wait !== Infinity) return;
    const expected = `finite with ${this.skipOption} (0 skips at once if the lock is held)`;
    throw new BadOptionError(this.named('wait'), wait, expected);
  }

  private makeKey({ self, args, context }: MethodCall): unknown {
    const { source } = this;
    switch (source.from) {
      case 'name':
        return source.key;
      case 'arguments':
        return Reflect.apply(source.key, self, args);
      case 'context':
        if (context) return source.key(context);
        throw new MisuseError(
          `${this.decorator} on ${this.label} takes its key from the ExecutionContext, but the method was called without one: only calls that Nest makes through a handler's interceptors have one. Make the key from the arguments instead`,
        );
    }
  }
}
