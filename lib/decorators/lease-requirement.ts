import type { ExecutionContext, InjectionToken } from '@nestjs/common';
import { BadOptionError } from '../client/errors.js';
import type { Entry } from '../recipes/index.js';
import type { Holding } from '../services/call-guard.js';
import {
  checkKnownOptions,
  checkLockOptions,
  checkSemaphoreOptions,
  LOCK_OPTIONS,
  SEMAPHORE_OPTIONS,
} from '../services/service-options.js';
import { isContention } from '../services/lease-service.js';
import type { LockKeys } from '../services/keys.js';
import { checkKey, checkKeys } from '../services/keys.js';
import { getLockServiceToken, getSemaphoreServiceToken } from '../zk.tokens.js';
import type { HoldingOptions } from './decorator-types.js';
import { METHOD_OPTIONS, type MethodCall, MethodSpec, MisuseError } from './requirement.js';

export type KeySource =
  | { from: 'name'; key: LockKeys }
  | { from: 'arguments'; key: (...args: never[]) => unknown }
  | { from: 'context'; key: (context: ExecutionContext) => unknown };

/** That a method holds a lock or permits while it runs. */
export class LeaseSpec extends MethodSpec<Holder> {
  private readonly wait: number | undefined;
  private readonly onBusy: NonNullable<HoldingOptions['onBusy']>;
  /** What the service is asked with. */
  private readonly asked: object;

  constructor(
    private readonly kind: LeaseKind,
    target: object,
    method: string | symbol,
    private readonly source: KeySource,
    options: HoldingOptions,
  ) {
    super(kind.decorator, kind.service, target, method, options ?? {});
    // A call's signal is the caller's, and a decorator has none.
    const known = kind.options.filter((option) => option !== 'signal');
    checkKnownOptions(this.named('options'), options, [...known, ...METHOD_OPTIONS, 'onBusy']);
    const { onBusy = 'throw', onLost: _, connection: __, ...asked } = options;
    if (onBusy !== 'throw' && onBusy !== 'skip' && typeof onBusy !== 'function') {
      throw new BadOptionError(
        this.named('onBusy'),
        onBusy,
        "'throw', 'skip' or a function that makes an error",
      );
    }
    if (source.from === 'name') kind.checkKey(source.key, this.named('key'));
    kind.checkOptions(asked, source.key, (option) => this.named(option));
    this.wait = asked.wait;
    this.onBusy = onBusy;
    this.asked = asked;
    if (this.wait !== undefined) this.checkSkip(this.wait);
  }

  override get serviceToken(): InjectionToken<Holder> {
    return this.kind.tokenOf(this.connection);
  }

  override get needsArguments(): boolean {
    return this.source.from === 'arguments';
  }

  override get skips(): string | undefined {
    return this.onBusy === 'skip' ? "onBusy: 'skip'" : undefined;
  }

  override keyOf(call: MethodCall): LockKeys {
    const key = this.makeKey(call);
    this.kind.checkKey(key, this.named('key'));
    return key;
  }

  override async enter(
    service: Holder,
    key: LockKeys,
    _call: MethodCall,
    signal: AbortSignal | undefined,
  ): Promise<Holding | undefined> {
    this.checkDefaultWait(service.defaultWait);
    try {
      return new LeaseHolding(await service.enter(key, { ...this.asked, signal }));
    } catch (error) {
      const { onBusy } = this;
      if (!isContention(error) || onBusy === 'throw') throw error;
      if (onBusy === 'skip') return undefined;
      throw onBusy(error.key ?? String(key));
    }
  }

  override instead(): unknown {
    return this.nothing;
  }

  /** Skipping means that a wait ends; the connection's default may decide how long it is. */
  checkDefaultWait(defaultWait: number): void {
    this.checkSkip(this.wait ?? defaultWait);
  }

  private checkSkip(wait: number): void {
    if (this.skips && wait === Infinity) {
      throw new BadOptionError(
        this.named('wait'),
        wait,
        "finite with onBusy: 'skip' (0 skips at once where the lock is taken)",
      );
    }
  }

  private makeKey({ args, context }: MethodCall): unknown {
    const { source } = this;
    switch (source.from) {
      case 'name':
        return source.key;
      case 'arguments':
        return source.key(...(args as never[]));
      case 'context':
        if (context) return source.key(context);
        throw new MisuseError(
          `${this.decorator} on ${this.label} takes its key from the ExecutionContext, but the method was called without one: only a call that Nest makes through a handler's interceptors has it. Make the key from the arguments instead`,
        );
    }
  }
}

class LeaseHolding implements Holding {
  constructor(private readonly entry: Entry) {}

  get held(): boolean {
    return this.entry.lease.held;
  }

  get signal(): AbortSignal {
    return this.entry.lease.signal;
  }

  run<T>(fn: () => T): T {
    return this.entry.run(fn);
  }

  release(): Promise<void> {
    return this.entry.release();
  }
}

/** What a decorator holds while its method runs, by way of a service. */
export interface Holder {
  readonly defaultWait: number;
  enter(key: LockKeys, options: object): Promise<Entry>;
}

/** What tells one such decorator from another. */
export interface LeaseKind {
  /** As it is written, for messages; likewise the service. */
  readonly decorator: string;
  readonly service: string;
  readonly options: readonly string[];
  tokenOf(connection: string): InjectionToken<Holder>;
  checkKey(key: unknown, what: string): asserts key is LockKeys;
  /** Checks what the service takes. `keys` is known where the decorator names them. */
  checkOptions(options: object, keys: unknown, named: (option: string) => string): void;
}

export const LOCK: LeaseKind = {
  decorator: '@DistributedLock',
  service: 'LockService',
  options: LOCK_OPTIONS,
  tokenOf: getLockServiceToken,
  checkKey: checkKeys,
  checkOptions: checkLockOptions,
};

export const SEMAPHORE: LeaseKind = {
  decorator: '@DistributedSemaphore',
  service: 'SemaphoreService',
  options: SEMAPHORE_OPTIONS,
  // Given a key that checkKey let pass, and the options that checkOptions did.
  tokenOf: getSemaphoreServiceToken as LeaseKind['tokenOf'],
  checkKey,
  checkOptions: (options, _, named) => checkSemaphoreOptions(options, named),
};
