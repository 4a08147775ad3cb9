import type { ExecutionContext, InjectionToken } from '@nestjs/common';
import { isObservable } from 'rxjs';
import { BadOptionError, CoordinationError } from '../client/errors.js';
import type { Entry } from '../recipes/index.js';
import { checkOptions } from '../services/lease-options.js';
import { isContention } from '../services/lease-service.js';
import type { LockKeys } from '../services/lock-key.js';
import { connectionName } from '../zk.tokens.js';
import type { HoldingOptions } from './decorator-types.js';
import { MisuseError } from './errors.js';
import type { Holder, LeaseKind } from './lease-kind.js';

const OWN_OPTIONS = ['onBusy', 'onLost', 'connection'] satisfies (keyof HoldingOptions)[];

export type KeySource =
  | { from: 'name'; key: LockKeys }
  | { from: 'arguments'; key: (...args: never[]) => unknown }
  | { from: 'context'; key: (context: ExecutionContext) => unknown };

/** One decorator that holds a lock or permits while its method runs, on one method, checked. */
export class LeaseSpec {
  /** `Class.method`, for messages. */
  readonly label: string;
  readonly connection: string;
  /** The method says by its return type that it returns an Observable. */
  readonly streams: boolean;
  readonly wait: number | undefined;
  readonly onBusy: NonNullable<HoldingOptions['onBusy']>;
  readonly onLost: NonNullable<HoldingOptions['onLost']>;
  /** What the service is asked with. */
  private readonly asked: object;

  constructor(
    readonly kind: LeaseKind,
    target: object,
    method: string | symbol,
    private readonly source: KeySource,
    options: HoldingOptions,
  ) {
    this.label = `${target.constructor.name}.${String(method)}`;
    // A call's signal is the caller's, and a decorator has none.
    const known = kind.options.filter((option) => option !== 'signal');
    checkOptions(this.named('options'), options, [...known, ...OWN_OPTIONS]);
    const { onBusy = 'throw', onLost = 'throw', connection, ...asked } = options;
    if (onBusy !== 'throw' && onBusy !== 'skip' && typeof onBusy !== 'function') {
      throw new BadOptionError(
        this.named('onBusy'),
        onBusy,
        "'throw', 'skip' or a function that makes an error",
      );
    }
    if (onLost !== 'throw' && onLost !== 'ignore') {
      throw new BadOptionError(this.named('onLost'), onLost, "'throw' or 'ignore'");
    }
    if (source.from === 'name') kind.checkKey(source.key, this.named('key'));
    kind.checkOptions(asked, source.key, (option) => this.named(option));
    this.connection = connectionName(connection, this.named('connection'));
    this.streams = isObservableType(Reflect.getMetadata('design:returntype', target, method));
    this.wait = asked.wait;
    this.onBusy = onBusy;
    this.onLost = onLost;
    this.asked = asked;
    if (this.wait !== undefined) this.checkSkip(this.wait);
  }

  get serviceToken(): InjectionToken<Holder> {
    return this.kind.tokenOf(this.connection);
  }

  /** Whether the key can be known only from the arguments that the method is called with in the end. */
  get needsArguments(): boolean {
    return this.source.from === 'arguments';
  }

  keyOf(args: unknown[], context: ExecutionContext | undefined): LockKeys {
    const key = this.makeKey(args, context);
    this.kind.checkKey(key, this.named('key'));
    return key;
  }

  /** Takes the lease; undefined where others hold it and the method is to be skipped then. */
  async enter(
    service: Holder,
    key: LockKeys,
    signal: AbortSignal | undefined,
  ): Promise<Entry | undefined> {
    const { wait, asked, onBusy } = this;
    this.checkSkip(wait ?? service.defaultWait);
    try {
      return await service.enter(key, { ...asked, signal });
    } catch (error) {
      if (!isContention(error) || onBusy === 'throw') throw error;
      if (onBusy === 'skip') return undefined;
      throw onBusy(error.key ?? String(key));
    }
  }

  /** What a method that ran on this lease has to fail with, if it did not fail by itself. */
  lossOf({ lease }: Entry): CoordinationError | undefined {
    // Not held and not aborted: the method gave its lease back by itself.
    if (this.onLost === 'ignore' || lease.held || !lease.signal.aborted) return undefined;
    return lease.signal.reason as CoordinationError;
  }

  /** Skipping means that a wait ends; the module's default may decide how long it is. */
  checkSkip(wait: number): void {
    if (this.onBusy === 'skip' && wait === Infinity) {
      throw new BadOptionError(
        this.named('wait'),
        wait,
        "finite with onBusy: 'skip' (0 skips at once where the lock is taken)",
      );
    }
  }

  private named(option: string): string {
    return `${option} of ${this.kind.decorator} on ${this.label}`;
  }

  private makeKey(args: unknown[], context: ExecutionContext | undefined): unknown {
    const { source } = this;
    switch (source.from) {
      case 'name':
        return source.key;
      case 'arguments':
        return source.key(...(args as never[]));
      case 'context':
        if (context) return source.key(context);
        throw new MisuseError(
          `${this.kind.decorator} on ${this.label} takes its key from the ExecutionContext, but the method was called without one: only a call that Nest makes through a handler's interceptors has it. Make the key from the arguments instead`,
        );
    }
  }
}

/** By shape, since the application may have another copy of rxjs. */
function isObservableType(type: unknown): boolean {
  return typeof type === 'function' && isObservable(type.prototype as unknown);
}
