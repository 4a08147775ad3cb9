import type { ExecutionContext } from '@nestjs/common';
import { isObservable } from 'rxjs';
import { BadOptionError, CoordinationError } from '../client/errors.js';
import type { Entry } from '../recipes/index.js';
import { checkKey } from '../services/lock-key.js';
import { checkOptions, checkWait } from '../services/lock-options.js';
import { isContention, type LockService } from '../services/lock.service.js';
import { connectionName } from '../zk.tokens.js';
import type { DistributedLockOptions } from './distributed-lock.types.js';
import { MisuseError } from './errors.js';

const OPTIONS = [
  'wait',
  'onBusy',
  'onLost',
  'connection',
  'path',
  'reentrant',
] satisfies (keyof DistributedLockOptions)[];

export type KeySource =
  | { from: 'name'; key: string }
  | { from: 'arguments'; key: (...args: never[]) => unknown }
  | { from: 'context'; key: (context: ExecutionContext) => unknown };

/** One `@DistributedLock` on one method, checked. */
export class LockSpec {
  /** `Class.method`, for messages. */
  readonly label: string;
  readonly connection: string;
  /** The method says by its return type that it returns an Observable. */
  readonly streams: boolean;
  readonly wait: number | undefined;
  readonly onBusy: NonNullable<DistributedLockOptions['onBusy']>;
  readonly onLost: NonNullable<DistributedLockOptions['onLost']>;
  private readonly path: string | undefined;
  private readonly reentrant: boolean | undefined;

  constructor(
    target: object,
    method: string | symbol,
    private readonly source: KeySource,
    options: DistributedLockOptions,
  ) {
    this.label = `${target.constructor.name}.${String(method)}`;
    checkOptions(this.option('options'), options, OPTIONS);
    const { wait, onBusy = 'throw', onLost = 'throw', connection, path, reentrant } = options;
    checkWait(this.option('wait'), wait);
    if (onBusy !== 'throw' && onBusy !== 'skip' && typeof onBusy !== 'function') {
      throw new BadOptionError(
        this.option('onBusy'),
        onBusy,
        "'throw', 'skip' or a function that makes an error",
      );
    }
    if (onLost !== 'throw' && onLost !== 'ignore') {
      throw new BadOptionError(this.option('onLost'), onLost, "'throw' or 'ignore'");
    }
    if (source.from === 'name') checkKey(source.key, this.option('key'));
    this.connection = connectionName(connection, this.option('connection'));
    this.streams = isObservableType(Reflect.getMetadata('design:returntype', target, method));
    this.wait = wait;
    this.onBusy = onBusy;
    this.onLost = onLost;
    this.path = path;
    this.reentrant = reentrant;
    if (wait !== undefined) this.checkSkip(wait);
  }

  /** Whether the key can be known only from the arguments that the method is called with in the end. */
  get needsArguments(): boolean {
    return this.source.from === 'arguments';
  }

  keyOf(args: unknown[], context: ExecutionContext | undefined): string {
    const key = this.makeKey(args, context);
    checkKey(key, this.option('key'));
    return key;
  }

  /** Takes the lock; undefined where others hold it and the method is to be skipped then. */
  async enter(
    service: LockService,
    key: string,
    signal: AbortSignal | undefined,
  ): Promise<Entry | undefined> {
    const { wait, path, reentrant, onBusy } = this;
    this.checkSkip(wait ?? service.defaultWait);
    try {
      return await service.enter(key, { wait, path, reentrant, signal });
    } catch (error) {
      if (!isContention(error) || onBusy === 'throw') throw error;
      if (onBusy === 'skip') return undefined;
      throw onBusy(key);
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
        this.option('wait'),
        wait,
        "finite with onBusy: 'skip' (0 skips at once where the lock is taken)",
      );
    }
  }

  option(name: string): string {
    return `${name} of @DistributedLock on ${this.label}`;
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
          `@DistributedLock on ${this.label} takes its key from the ExecutionContext, but the method was called without one: only a call that Nest makes through a handler's interceptors has it. Make the key from the arguments instead`,
        );
    }
  }
}

/** By shape, since the application may have another copy of rxjs. */
function isObservableType(type: unknown): boolean {
  return typeof type === 'function' && isObservable(type.prototype as unknown);
}
