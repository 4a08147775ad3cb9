import { AsyncLocalStorage } from 'node:async_hooks';
import { isDeepStrictEqual } from 'node:util';
import type { ExecutionContext } from '@nestjs/common';
import { isObservable, type Observable } from 'rxjs';
import { CoordinationError, WaitCancelledError } from '../client/errors.js';
import type { Holding } from '../services/call-guard.js';
import type { LockKeys } from '../services/keys.js';
import { checkBegun, guarded, streamOf } from './guarded-stream.js';
import type { MethodCall, MethodSpec } from './requirement.js';
import { skippedHandler } from './coordination.explorer.js';

/** What one of the handler's needs has come to in this call. */
interface Slot {
  readonly spec: MethodSpec;
  /** The latest call of the method itself, below this need, settled or not. It never rejects. */
  latest: Promise<unknown> | undefined;
  key: LockKeys | undefined;
  holding: Holding | undefined;
}

/**
 * One call of a handler, and what it holds from its interceptor to the end of its answer.
 *
 * Interceptors run before pipes: a key made of the arguments is not known here. Such a lock is taken
 * when the method's wrapper, called with the final arguments, finds this object in its call chain;
 * and so is all that is inside of it, to keep the order. What is outside of it is taken at once.
 */
export class HandlerCall {
  /** Undefined inside of the method: what that calls is no part of the handler's call. */
  private static readonly present = new AsyncLocalStorage<HandlerCall | undefined>();

  private readonly slots: Slot[];
  private readonly holdings: Holding[] = [];
  private readonly raised = new WeakMap<object, MethodSpec>();
  private readonly callerLeft = new AbortController();
  /** Calls that take something or run the method. What they hold stays until they have settled. */
  private active = 0;
  private over = false;

  constructor(
    specs: readonly MethodSpec[],
    private readonly context: ExecutionContext,
    private readonly serviceOf: (spec: MethodSpec) => unknown,
  ) {
    this.slots = specs.map((spec) => ({
      spec,
      latest: undefined,
      key: undefined,
      holding: undefined,
    }));
    for (const spec of specs) if (spec.skips) throw skippedHandler(spec);
  }

  /**
   * The handler's call that this call of a decorated method is the method's part of. Not every call
   * in its chain is: other decorated methods see to it themselves.
   */
  static claim(spec: MethodSpec, args: unknown[]): HandlerCall | undefined {
    const call = HandlerCall.present.getStore();
    const slot = call?.slotOf(spec);
    if (!call || !slot) return undefined;
    if (!slot.latest) return call;
    // An interceptor that subscribes again, to retry, calls the method again on the same lease.
    const repeated = !call.over && call.holds(slot, args);
    return repeated ? call : undefined;
  }

  /**
   * Takes what is known before the arguments are. Where one of it is not to be had, resolves with what
   * the handler is to answer without being called.
   */
  open(): Promise<Observable<unknown> | undefined> {
    return this.duringActivity(async () => {
      for (const slot of this.slots) {
        const { spec } = slot;
        if (spec.needsArguments) return undefined;
        if (!(await this.take(slot, []))) return streamOf(this.instead(spec, []));
      }
      return undefined;
    });
  }

  /** Runs `fn` as part of this call, and as the holder of what it holds. */
  readonly within = <T>(fn: () => T): T => {
    const inside = this.holdings.reduceRight<() => T>(
      (inner, holding) => () => holding.run(inner),
      fn,
    );
    return HandlerCall.present.run(this, inside);
  };

  /** Runs the method below one of its needs. */
  run(spec: MethodSpec, args: unknown[], method: () => unknown): Promise<unknown> {
    const slot = this.slotOf(spec)!;
    const { latest } = slot;
    const running = this.duringActivity(async () => {
      // An interceptor whose patience ended has left it running: the lease is for one at a time.
      if (latest) await latest;
      const holding = slot.holding?.held ? slot.holding : await this.take(slot, args);
      if (!holding) return this.instead(spec, args);
      if (latest && this.over) throw this.raise(callerLeft(spec, slot.key!), spec);
      this.checkAbove(slot);
      const inside = slot === this.slots.at(-1) ? undefined : this;
      const value = await HandlerCall.present.run(inside, () => holding.run(method));
      if (isObservable(value)) {
        return guarded(value, spec, holding, (loss) => this.raise(loss, spec));
      }
      checkBegun(value, spec);
      const loss = spec.lossOf(holding);
      if (loss) throw this.raise(loss, spec);
      return value;
    });
    slot.latest = running.catch(() => {});
    return running;
  }

  /** The caller does not wait for an answer any more. What runs goes on; what waits does not. */
  abandon(): void {
    this.callerLeft.abort();
  }

  /** Gives back what it holds, as soon as the method does not run any more. Idempotent. */
  async close(): Promise<void> {
    this.over = true;
    this.abandon();
    if (this.active === 0) await this.giveBack();
  }

  /** What raised an error; undefined for an error of the method or of other methods' needs. */
  sourceOf(error: unknown): MethodSpec | undefined {
    return error instanceof CoordinationError ? this.raised.get(error) : undefined;
  }

  /** What was lost above while this one waited: the method must not begin without it. */
  private checkAbove(slot: Slot): void {
    for (const { spec, holding } of this.slots.slice(0, this.slots.indexOf(slot))) {
      if (holding?.signal.aborted) throw this.raise(holding.signal.reason, spec);
    }
  }

  private slotOf(spec: MethodSpec): Slot | undefined {
    return this.slots.find((slot) => slot.spec === spec);
  }

  private holds({ spec, key }: Slot, args: unknown[]): boolean {
    try {
      return isDeepStrictEqual(key, spec.keyOf(this.callWith(args)));
    } catch {
      // The method's own call makes the same key, and rejects.
      return false;
    }
  }

  private async take(slot: Slot, args: unknown[]): Promise<Holding | undefined> {
    const { spec } = slot;
    const call = this.callWith(args);
    const key = spec.keyOf(call);
    if (this.over) throw this.raise(callerLeft(spec, key), spec);
    slot.key = key;
    let holding: Holding | undefined;
    try {
      holding = await spec.enter(this.serviceOf(spec), key, call, this.callerLeft.signal);
    } catch (error) {
      throw this.raise(error, spec);
    }
    if (!holding) return undefined;
    slot.holding = holding;
    this.holdings.push(holding);
    if (this.over) throw this.raise(callerLeft(spec, key), spec);
    return holding;
  }

  private instead(spec: MethodSpec, args: unknown[]): unknown {
    const call = this.callWith(args);
    const answer = spec.instead(this.serviceOf(spec), spec.keyOf(call), call);
    // It may ask who leads, and hear that there is no connection.
    if (!(answer instanceof Promise)) return answer;
    return answer.catch((error: unknown) => {
      // A wait of its own, which says nothing of this call's caller.
      if (error instanceof WaitCancelledError) throw error;
      throw this.raise(error, spec);
    });
  }

  private callWith(args: unknown[]): MethodCall {
    return { args, context: this.context };
  }

  private raise(error: unknown, spec: MethodSpec): unknown {
    if (error instanceof CoordinationError) this.raised.set(error, spec);
    return error;
  }

  private async duringActivity<T>(activity: () => Promise<T>): Promise<T> {
    this.active++;
    try {
      return await activity();
    } finally {
      this.active--;
      if (this.over && this.active === 0) await this.giveBack();
    }
  }

  private async giveBack(): Promise<void> {
    await Promise.all(this.holdings.splice(0).map((holding) => holding.release()));
  }
}

function callerLeft(spec: MethodSpec, key: LockKeys): WaitCancelledError {
  return new WaitCancelledError(`the caller of ${spec.label} left before it ran`, {
    key: String(key),
  });
}
