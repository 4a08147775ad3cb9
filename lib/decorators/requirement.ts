import type { ExecutionContext, InjectionToken } from '@nestjs/common';
import 'reflect-metadata';
import { EMPTY, isObservable } from 'rxjs';
import { BadOptionError, CoordinationError } from '../client/errors.js';
import type { Holding } from '../services/call-guard.js';
import type { LockKeys } from '../services/keys.js';
import { connectionName } from '../zk.tokens.js';

/** One call of a method, as far as it is known when its needs are looked at. */
export interface MethodCall {
  readonly args: unknown[];
  /** Of a handler that Nest calls through its interceptors. */
  readonly context: ExecutionContext | undefined;
}

interface MethodOptions {
  onLost?: 'throw' | 'ignore';
  connection?: string;
}

export const METHOD_OPTIONS = ['onLost', 'connection'] satisfies (keyof MethodOptions)[];

/** What one decorator says that one method needs to run, checked. */
export abstract class MethodSpec<Service = unknown> {
  /** `Class.method`, for messages. */
  readonly label: string;
  readonly connection: string;
  /** The method says by its return type that it returns an Observable. */
  readonly streams: boolean;
  /** Of the service that gives it. */
  abstract readonly serviceToken: InjectionToken<Service>;
  /** Whether the key can be known only from the arguments that the method is called with in the end. */
  abstract readonly needsArguments: boolean;
  /** The option, as it is written, by which calls come to nothing without an error. */
  abstract readonly skips: string | undefined;
  private readonly onLost: NonNullable<MethodOptions['onLost']>;

  constructor(
    /** As it is written, for messages; likewise the service. */
    readonly decorator: string,
    readonly service: string,
    target: object,
    method: string | symbol,
    { onLost = 'throw', connection }: MethodOptions,
  ) {
    this.label = `${target.constructor.name}.${String(method)}`;
    if (onLost !== 'throw' && onLost !== 'ignore') {
      throw new BadOptionError(this.named('onLost'), onLost, "'throw' or 'ignore'");
    }
    this.onLost = onLost;
    this.connection = connectionName(connection, this.named('connection'));
    this.streams = isObservableType(Reflect.getMetadata('design:returntype', target, method));
  }

  /** What is asked of the service. */
  abstract keyOf(call: MethodCall): LockKeys;

  /** Undefined where it is not to be had, and the call comes to {@link instead} then. */
  abstract enter(
    service: Service,
    key: LockKeys,
    call: MethodCall,
    signal: AbortSignal | undefined,
  ): Promise<Holding | undefined>;

  /** What a call comes to that may not run the method. */
  abstract instead(service: Service, key: LockKeys, call: MethodCall): unknown;

  /** What a method that ran has to fail with, if it did not fail by itself. */
  lossOf({ held, signal }: Holding): CoordinationError | undefined {
    // Not held and not aborted: the method gave its lease back by itself.
    if (!this.failsOnLoss || held || !signal.aborted) return undefined;
    return signal.reason as CoordinationError;
  }

  /** What the method's caller gets for a call that is skipped. */
  protected get nothing(): unknown {
    return this.streams ? EMPTY : undefined;
  }

  get failsOnLoss(): boolean {
    return this.onLost === 'throw';
  }

  protected named(option: string): string {
    return `${option} of ${this.decorator} on ${this.label}`;
  }
}

/** By shape, since the application may have another copy of rxjs. */
function isObservableType(type: unknown): boolean {
  return typeof type === 'function' && isObservable(type.prototype as unknown);
}

const SPECS = 'nestjs-zookeeper:needs';

/** What a method needs to run, outermost first. Empty for a method that needs nothing. */
export function specsOf(method: object): readonly MethodSpec[] {
  return (Reflect.getMetadata(SPECS, method) as MethodSpec[] | undefined) ?? [];
}

/** Decorators are applied from the lowest up: the one that comes last is the outermost. */
export function addSpec(method: object, spec: MethodSpec): void {
  Reflect.defineMetadata(SPECS, [spec, ...specsOf(method)], method);
}

/** What the decorators below said of the method is true of its wrapper. */
export function copyMetadata(from: object, to: object): void {
  for (const key of Reflect.getMetadataKeys(from)) {
    Reflect.defineMetadata(key, Reflect.getMetadata(key, from), to);
  }
}

/**
 * A decorator stands where it cannot do what it says. The message names the method and tells what to
 * change; nothing was run without its lock.
 *
 * @publicApi
 */
export class MisuseError extends CoordinationError {
  readonly code = 'MISUSE';
}
