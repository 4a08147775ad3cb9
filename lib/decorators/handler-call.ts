import { AsyncLocalStorage } from 'node:async_hooks';
import { isDeepStrictEqual } from 'node:util';
import type { ExecutionContext } from '@nestjs/common';
import { isObservable, type Observable } from 'rxjs';
import { CoordinationError, WaitCancelledError } from '../client/errors.js';
import { runForRequest } from '../kernel/call-chain.js';
import type { LockKeys } from '../services/keys.js';
import { checkNotGenerator, guardedStream, subscribedIn, toObservable } from './guarded-stream.js';
import type { CallGuard, MethodCall, Requirement } from './requirement.js';

/** The state of one requirement of a handler during one call. */
interface Slot {
  readonly requirement: Requirement;
  /** The latest run of the method inside this requirement. Never rejects. */
  latestRun: Promise<unknown> | undefined;
  key: LockKeys | undefined;
  guard: CallGuard | undefined;
}

/**
 * One call of a handler, and the guards that it holds from its interceptor to the end of its answer.
 *
 * Interceptors run before pipes and do not know the final arguments. A requirement whose key is made from
 * the arguments is acquired later: the method's wrapper receives the final arguments and finds this object
 * in its async context. Requirements inside that one are acquired then too, to keep their order; those
 * outside it are acquired in the interceptor.
 */
export class HandlerCall {
  /** Undefined inside the method: calls that it makes are not part of the handler's call. */
  private static readonly current = new AsyncLocalStorage<HandlerCall | undefined>();

  private readonly slots: Slot[];
  private readonly guards: CallGuard[] = [];
  private readonly sources = new WeakMap<object, Requirement>();
  private readonly disconnect = new AbortController();
  /** Number of running acquires and method runs. The guards are released after all of them have settled. */
  private active = 0;
  private closed = false;
  /** Whether its subscriber has left. Work inside a stream may continue. */
  private unsubscribed = false;
  private abandoned = false;
  /** Whether the method has returned an Observable. Such work ends when its subscriber unsubscribes. */
  private streams = false;

  constructor(
    requirements: readonly Requirement[],
    private readonly context: ExecutionContext,
    private readonly serviceOf: (requirement: Requirement) => unknown,
  ) {
    this.slots = requirements.map((requirement) => ({
      requirement,
      latestRun: undefined,
      key: undefined,
      guard: undefined,
    }));
    for (const requirement of requirements) requirement.useOnHandler();
  }

  /**
   * Returns the handler's call that this call of a decorated method belongs to. Undefined for other
   * decorated methods in the same async context, which acquire their own guards.
   */
  static claim(requirement: Requirement, self: unknown, args: unknown[]): HandlerCall | undefined {
    const call = HandlerCall.current.getStore();
    const slot = call?.slotOf(requirement);
    if (!call || !slot) return undefined;
    if (!slot.latestRun) return call;
    // An interceptor that retries subscribes again: the method runs again under the same guard.
    const isRetry = !call.closed && call.hasKeyFor(slot, call.callWith(self, args));
    return isRetry ? call : undefined;
  }

  /**
   * Acquires the requirements that do not depend on the arguments. Resolves to an answer if the handler must not run.
   */
  open(): Promise<Observable<unknown> | undefined> {
    const acquireAll = async () => {
      for (const slot of this.slots) {
        const { requirement } = slot;
        if (requirement.keyFromArguments) return undefined;
        const call = this.callWith(undefined, []);
        if (!(await this.acquire(slot, call)))
          return toObservable(this.fallback(requirement, call));
      }
      return undefined;
    };
    return this.asRequest(() => this.whileActive(acquireAll));
  }

  /** Runs `fn` as part of this call and as the holder of its guards. */
  readonly runWithin = <T>(fn: () => T): T => {
    const inside = this.guards.reduceRight<() => T>((inner, guard) => () => guard.run(inner), fn);
    return this.asRequest(() => HandlerCall.current.run(this, inside));
  };

  /** Runs `method`, the handler with the decorators inside `requirement`. */
  run(
    requirement: Requirement,
    self: unknown,
    args: unknown[],
    method: () => unknown,
  ): Promise<unknown> {
    const slot = this.slotOf(requirement)!;
    const call = this.callWith(self, args);
    const { latestRun } = slot;
    const run = this.whileActive(async () => {
      // An interceptor that timed out may have left the earlier run behind; the guard admits one at a time.
      if (latestRun) await latestRun;
      const guard = slot.guard?.held ? slot.guard : await this.acquire(slot, call);
      if (!guard) return this.fallback(requirement, call);
      if (latestRun && this.closed) throw this.disconnected(slot);
      this.checkOuterGuards(slot);
      const inside = slot === this.slots.at(-1) ? undefined : this;
      const runAsHolder = <T>(fn: () => T) => HandlerCall.current.run(inside, () => guard.run(fn));
      const value = await runAsHolder(method);
      if (isObservable(value)) {
        this.streams = true;
        if (this.abandoned) throw this.disconnected(slot);
        const stream = subscribedIn(runAsHolder, () => value);
        return guardedStream(stream, requirement, guard, (loss) => this.raise(loss, requirement));
      }
      checkNotGenerator(value, requirement);
      const loss = requirement.lossOf(guard);
      if (loss) throw this.raise(loss, requirement);
      return value;
    });
    // The caller of this run gets its failure.
    slot.latestRun = run.catch(() => {});
    return run;
  }

  /** Cancels waits, because nobody waits for the answer any more. A running method continues. */
  cancelWaits(): void {
    this.disconnect.abort();
  }

  /** Called when nobody waits for the answer any more. Returns whether the handler runs to its end nevertheless. */
  abandon(): boolean {
    this.abandoned = true;
    this.cancelWaits();
    return !this.streams;
  }

  /** Releases the guards, once the method does not run any more. Idempotent. */
  async close(unsubscribed: boolean): Promise<void> {
    this.closed = true;
    this.unsubscribed ||= unsubscribed;
    this.cancelWaits();
    if (this.active === 0) await this.releaseGuards();
  }

  /** Returns the requirement that caused an error; undefined for errors of the method itself. */
  sourceOf(error: unknown): Requirement | undefined {
    return error instanceof CoordinationError ? this.sources.get(error) : undefined;
  }

  /** Returns the key of a requirement; undefined before it was made. */
  keyOf(requirement: Requirement): LockKeys | undefined {
    return this.slotOf(requirement)?.key;
  }

  /** Throws if an outer guard was lost while this one was acquired: the method must not start without it. */
  private checkOuterGuards(slot: Slot): void {
    for (const { requirement, guard } of this.slots.slice(0, this.slots.indexOf(slot))) {
      if (guard?.signal.aborted) throw this.raise(guard.signal.reason, requirement);
    }
  }

  private asRequest<T>(fn: () => T): T {
    const request = requestOf(this.context);
    return request ? runForRequest(request, fn) : fn();
  }

  private slotOf(requirement: Requirement): Slot | undefined {
    return this.slots.find((slot) => slot.requirement === requirement);
  }

  private hasKeyFor({ requirement, key }: Slot, call: MethodCall): boolean {
    try {
      return isDeepStrictEqual(key, requirement.keyOf(call));
    } catch {
      // The method's own call makes the same key and rejects with this error.
      return false;
    }
  }

  private async acquire(slot: Slot, call: MethodCall): Promise<CallGuard | undefined> {
    const { requirement } = slot;
    let guard: CallGuard | undefined;
    try {
      const key = (slot.key = requirement.keyOf(call));
      if (this.closed || this.abandoned) throw this.disconnected(slot);
      const service = this.serviceOf(requirement);
      guard = await requirement.acquire(service, key, call, this.disconnect.signal);
    } catch (error) {
      throw this.raise(error, requirement);
    }
    if (!guard) return undefined;
    slot.guard = guard;
    this.guards.push(guard);
    if (this.closed || this.abandoned) throw this.disconnected(slot);
    return guard;
  }

  private fallback(requirement: Requirement, call: MethodCall): unknown {
    const answer = requirement.fallback(this.serviceOf(requirement), requirement.keyOf(call), call);
    if (!(answer instanceof Promise)) return answer;
    // The fallback may have asked for the leader, and failed because there was no connection.
    return answer.catch((error: unknown) => {
      // A wait inside the fallback was cancelled, not the wait of this call.
      if (error instanceof WaitCancelledError) throw error;
      throw this.raise(error, requirement);
    });
  }

  private callWith(self: unknown, args: unknown[]): MethodCall {
    return { self, args, context: this.context };
  }

  /** Marks an error as caused by a requirement, so that the interceptor maps it. */
  private raise(error: unknown, requirement: Requirement): unknown {
    if (error instanceof CoordinationError) this.sources.set(error, requirement);
    return error;
  }

  private disconnected({ requirement, key }: Slot): unknown {
    const message = `the client disconnected before ${requirement.label} ran`;
    return this.raise(new WaitCancelledError(message, { key: String(key) }), requirement);
  }

  private async whileActive<T>(activity: () => Promise<T>): Promise<T> {
    this.active++;
    try {
      return await activity();
    } finally {
      this.active--;
      if (this.closed && this.active === 0) await this.releaseGuards();
    }
  }

  private async releaseGuards(): Promise<void> {
    const abandoned = this.unsubscribed && this.streams;
    await Promise.all(this.guards.splice(0).map((guard) => guard.release(abandoned)));
  }
}

/** Returns what all handlers of one request have in common; undefined for RPC, whose caller may be in this process. */
function requestOf(context: ExecutionContext): object | undefined {
  switch (context.getType<string>()) {
    case 'http':
      return context.switchToHttp().getRequest<object>();
    case 'ws':
      return context.getArgs();
    case 'graphql':
      return context.getArgByIndex<object | undefined>(2);
    default:
      return undefined;
  }
}
