import type { ExecutionContext, InjectionToken } from '@nestjs/common';
import 'reflect-metadata';
import { EMPTY, isObservable } from 'rxjs';
import { BadOptionError, CoordinationError } from '../client/errors.js';
import { type Rules, uncheckedRules } from '../client/validation.js';
import type { LockKeys } from '../services/keys.js';
import { connectionName } from '../services/tokens.js';

/** One call of a decorated method. */
export interface MethodCall {
  /** The instance; undefined in a handler's interceptor. */
  readonly self: unknown;
  /** Empty in a handler's interceptor, which runs before the pipes. */
  readonly args: unknown[];
  /** Only for calls of handlers. */
  readonly context: ExecutionContext | undefined;
}

/** A right that one call holds while it runs: a lease, or the leadership during one term. */
export interface CallGuard {
  readonly held: boolean;
  /** Aborts when the right is lost. The reason is the error that the call then fails with. */
  readonly signal: AbortSignal;
  /** Runs `fn` as the holder. */
  run<T>(fn: () => T): T;
  /** @param abandoned whether work of the call may continue: then the signal of a lease aborts */
  release(abandoned?: boolean): Promise<void>;
}

interface MethodOptions {
  onLost?: 'throw' | 'ignore' | undefined;
  connection?: string | undefined;
}

export const METHOD_RULES: Rules<MethodOptions> = uncheckedRules('onLost', 'connection');

/** What one decorator requires for each call of one method: a lease, or leadership. Its options are checked. */
export abstract class Requirement<Service = unknown> {
  /** `Class.method`, for error messages. */
  readonly label: string;
  readonly connection: string;
  /** Whether the declared return type of the method is an Observable. */
  readonly returnsObservable: boolean;
  abstract readonly serviceToken: InjectionToken<Service>;
  /** Whether the key depends on the final arguments of the method. */
  abstract readonly keyFromArguments: boolean;
  /** The option by which calls are skipped, as it is written in the source; undefined if calls never are. */
  abstract readonly skipOption: string | undefined;
  /** Whether the method is a handler. */
  protected onHandler = false;
  private readonly onLost: NonNullable<MethodOptions['onLost']>;

  constructor(
    /** The decorator as it is written in the source, for error messages. */
    readonly decorator: string,
    /** Name of the service's class, for error messages. */
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
    const returnType: unknown = Reflect.getMetadata('design:returntype', target, method);
    // By shape, because the application may have its own copy of rxjs.
    this.returnsObservable = typeof returnType === 'function' && isObservable(returnType.prototype);
  }

  abstract keyOf(call: MethodCall): LockKeys;

  /** Resolves to undefined if the call must not run the method; the caller gets {@link fallback} then. */
  abstract acquire(
    service: Service,
    key: LockKeys,
    call: MethodCall,
    signal: AbortSignal | undefined,
  ): Promise<CallGuard | undefined>;

  /** Returns the result of a call that must not run the method. */
  abstract fallback(service: Service, key: LockKeys, call: MethodCall): unknown;

  /** Returns the error with which a call must fail although the method succeeded. */
  lossOf({ held, signal }: CallGuard): CoordinationError | undefined {
    // If the signal is not aborted, the method released the lease itself.
    if (!this.failsOnLoss || held || !signal.aborted) return undefined;
    return signal.reason as CoordinationError;
  }

  get failsOnLoss(): boolean {
    return this.onLost === 'throw';
  }

  /**
   * Called for a method that is a handler, or that a handler calls under its own name.
   *
   * @throws MisuseError if calls may be skipped
   */
  useOnHandler(): void {
    this.onHandler = true;
    if (!this.skipOption) return;
    throw new MisuseError(
      `${this.decorator} on the handler ${this.label} has ${this.skipOption}, which would answer success although nothing was done. Use 'throw' or a function`,
    );
  }

  /** Returns the error for a service that is a mock. With the mock, the method would run without the lease, or not at all. */
  protected mocked(): MisuseError {
    return new MisuseError(
      `${this.label} has a ${this.decorator}, but its ${this.service} is a mock whose enter() does not return what the service returns. The method was not run. Use the providers of a FakeLocks of nestjs-zookeeper/testing`,
    );
  }

  /** The result of a skipped call. */
  protected get skippedResult(): unknown {
    return this.returnsObservable ? EMPTY : undefined;
  }

  protected named(option: string): string {
    return `${option} of ${this.decorator} on ${this.label}`;
  }
}

export const REQUIREMENTS = 'nestjs-zookeeper:requirements';

/** Returns the requirements of a method, outermost first. */
export function requirementsOf(method: object): readonly Requirement[] {
  return (Reflect.getMetadata(REQUIREMENTS, method) as Requirement[] | undefined) ?? [];
}

/** Adds the outermost requirement. Decorators are applied from the bottom up. */
export function addRequirement(method: object, requirement: Requirement): void {
  Reflect.defineMetadata(REQUIREMENTS, [requirement, ...requirementsOf(method)], method);
}

/** Remembers the outermost requirement of a method apart from its function, which others may replace. */
export function expectRequirement(
  target: object,
  method: string | symbol,
  requirement: Requirement,
): void {
  const inner = Reflect.hasOwnMetadata(REQUIREMENTS, target, method)
    ? expectedRequirements(target, method)
    : [];
  Reflect.defineMetadata(REQUIREMENTS, [requirement, ...inner], target, method);
}

/**
 * Returns the requirements that a method of a class was decorated with, outermost first; those of the nearest class that it
 * extends if it was not decorated.
 */
export function expectedRequirements(
  target: object,
  method: string | symbol,
): readonly Requirement[] {
  return (Reflect.getMetadata(REQUIREMENTS, target, method) as Requirement[] | undefined) ?? [];
}

export function copyMetadata(from: object, to: object): void {
  for (const key of Reflect.getMetadataKeys(from)) {
    Reflect.defineMetadata(key, Reflect.getMetadata(key, from), to);
  }
}

/**
 * A decorator is used where it cannot work. The message names the method and what to change. The method was not run.
 * Cause: the method, its class or its provider does not allow the decorator, or the provider of a lock is a mock
 * without an implementation.
 * Remedy: change the method as the message says.
 *
 * @publicApi
 */
export class MisuseError extends CoordinationError {
  readonly code = 'MISUSE';
}
