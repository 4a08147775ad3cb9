import { AsyncLocalStorage } from 'node:async_hooks';
import { isDeepStrictEqual } from 'node:util';
import type { ExecutionContext } from '@nestjs/common';
import { isObservable } from 'rxjs';
import { CoordinationError, WaitCancelledError } from '../client/errors.js';
import type { Entry } from '../recipes/index.js';
import type { LockKeys } from '../services/lock-key.js';
import type { Holder } from './lease-kind.js';
import { guarded } from './lease-stream.js';
import type { LeaseSpec } from './lease-spec.js';
import { skippedHandler } from './start-up-check.js';

/** What one of the handler's locks has come to in this call. */
interface Slot {
  readonly spec: LeaseSpec;
  /** Whether the method itself has been called, below this lock. */
  method: 'awaited' | 'running' | 'settled';
  key: LockKeys | undefined;
  entry: Entry | undefined;
}

/**
 * One call of a handler, and the leases it holds from its interceptor to the end of its answer.
 *
 * Interceptors run before pipes: a key made of the arguments is not known here. Such a lock is taken
 * when the method's wrapper, called with the final arguments, finds this object in its call chain;
 * and so is every lock inside of it, to keep their order. The locks outside of it are taken at once.
 */
export class HandlerCall {
  private static readonly present = new AsyncLocalStorage<HandlerCall>();

  private readonly slots: Slot[];
  private readonly entries: Entry[] = [];
  private readonly raised = new WeakMap<object, LeaseSpec>();
  private readonly callerLeft = new AbortController();
  /** Calls that take a lock or run the method. Their leases stay until they have settled. */
  private active = 0;
  private over = false;

  constructor(
    specs: readonly LeaseSpec[],
    private readonly context: ExecutionContext,
    private readonly serviceOf: (spec: LeaseSpec) => Holder,
  ) {
    this.slots = specs.map((spec) => ({
      spec,
      method: 'awaited',
      key: undefined,
      entry: undefined,
    }));
    for (const spec of specs) if (spec.onBusy === 'skip') throw skippedHandler(spec);
  }

  /**
   * The handler's call that this call of a locked method is the method's part of. Not every call in
   * its chain is: other locked methods, and the method calling itself, take their locks themselves.
   */
  static claim(spec: LeaseSpec, args: unknown[]): HandlerCall | undefined {
    const call = HandlerCall.present.getStore();
    const slot = call?.slotOf(spec);
    if (!call || !slot) return undefined;
    if (slot.method === 'awaited') return call;
    // An interceptor that subscribes again, to retry, calls the method again on the same lease.
    const repeated = slot.method === 'settled' && !call.over && call.holds(slot, args);
    return repeated ? call : undefined;
  }

  /** Takes the locks whose key is known before the arguments are. */
  open(): Promise<void> {
    return this.duringActivity(async () => {
      for (const slot of this.slots) {
        if (slot.spec.needsArguments) return;
        await this.take(slot, []);
      }
    });
  }

  /** Runs `fn` as part of this call, and as the holder of its leases. */
  readonly within = <T>(fn: () => T): T => {
    const holding = this.entries.reduceRight<() => T>((inner, entry) => () => entry.run(inner), fn);
    return HandlerCall.present.run(this, holding);
  };

  /** Runs the method below one of its locks. */
  run(spec: LeaseSpec, args: unknown[], method: () => unknown): Promise<unknown> {
    const slot = this.slotOf(spec)!;
    slot.method = 'running';
    return this.duringActivity(async () => {
      try {
        const entry = slot.entry?.lease.held ? slot.entry : await this.take(slot, args);
        const value = await entry.run(method);
        if (isObservable(value)) {
          return guarded(value, spec, entry, (loss) => this.raise(loss, spec));
        }
        const loss = spec.lossOf(entry);
        if (loss) throw this.raise(loss, spec);
        return value;
      } finally {
        slot.method = 'settled';
      }
    });
  }

  /** The caller does not wait for an answer any more. What runs goes on; what waits for a lock does not. */
  abandon(): void {
    this.callerLeft.abort();
  }

  /** Gives the leases back, as soon as the method does not run any more. Idempotent. */
  async close(): Promise<void> {
    this.over = true;
    this.abandon();
    if (this.active === 0) await this.giveBack();
  }

  /** The lock that raised an error; undefined for an error of the method or of others' locks. */
  sourceOf(error: unknown): LeaseSpec | undefined {
    return error instanceof CoordinationError ? this.raised.get(error) : undefined;
  }

  private slotOf(spec: LeaseSpec): Slot | undefined {
    return this.slots.find((slot) => slot.spec === spec);
  }

  private holds({ spec, key }: Slot, args: unknown[]): boolean {
    try {
      return isDeepStrictEqual(key, spec.keyOf(args, this.context));
    } catch {
      // The method's own call makes the same key, and rejects.
      return false;
    }
  }

  private async take(slot: Slot, args: unknown[]): Promise<Entry> {
    const { spec } = slot;
    const key = spec.keyOf(args, this.context);
    if (this.over) throw this.raise(callerLeft(spec, key), spec);
    let entry: Entry;
    try {
      // Only a method that may be skipped has none, and a handler may not.
      entry = (await spec.enter(this.serviceOf(spec), key, this.callerLeft.signal))!;
    } catch (error) {
      throw this.raise(error, spec);
    }
    slot.key = key;
    slot.entry = entry;
    this.entries.push(entry);
    if (this.over) throw this.raise(callerLeft(spec, key), spec);
    return entry;
  }

  private raise(error: unknown, spec: LeaseSpec): unknown {
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
    await Promise.all(this.entries.splice(0).map((entry) => entry.release()));
  }
}

function callerLeft(spec: LeaseSpec, key: LockKeys): WaitCancelledError {
  return new WaitCancelledError(`the caller of ${spec.label} left before it ran`, {
    key: String(key),
  });
}
