import { AsyncLocalStorage } from 'node:async_hooks';
import { defer, isObservable, type Observable, throwError } from 'rxjs';
import type { Holding } from '../services/call-guard.js';
import { HandlerCall } from './handler-call.js';
import { bracket, checkBegun, guarded, streamOf, subscribedIn } from './guarded-stream.js';
import { injectedService } from './injected-service.js';
import type { MethodCall, MethodSpec } from './requirement.js';
import { MisuseError, specsOf } from './requirement.js';

/** One call of such a method outside of a handler. */
interface Call extends MethodCall {
  readonly spec: MethodSpec;
  readonly below: readonly MethodSpec[];
  /** @throws MisuseError where Nest did not make the object the method is called on. */
  service(): unknown;
  run(): unknown;
}

/**
 * The method, with what it needs. In a handler's call the interceptor holds that, and the wrapper
 * hands it the final arguments; in every other call the wrapper holds it. A Proxy, so that the method keeps its
 * name, its length and its properties.
 */
export function wrapMethod<M extends (...args: never[]) => unknown>(
  method: M,
  spec: MethodSpec,
  property: symbol,
): M {
  const below = specsOf(method);
  return new Proxy(method, {
    apply(target, self: unknown, args: unknown[]) {
      const run = () => Reflect.apply(target, self, args) as unknown;
      const handlerCall = HandlerCall.claim(spec, args);
      if (handlerCall) return handlerCall.run(spec, args, run);
      const service = () => injectedService(self, property, spec);
      const call: Call = { spec, below, args, context: undefined, service, run };
      return spec.streams ? defer(() => heldStream(call)) : heldPromise(call);
    },
  });
}

async function heldPromise({ spec, below, service, run, ...call }: Call): Promise<unknown> {
  const key = spec.keyOf(call);
  const holding = await spec.enter(service(), key, call, undefined);
  if (!holding) return spec.instead(service(), key, call);
  try {
    checkAbove(spec);
    const value = await runBelow(spec, below, holding, run);
    if (isObservable(value)) throw unforeseenStream(spec);
    checkBegun(value, spec);
    const loss = spec.lossOf(holding);
    if (loss) throw loss;
    return value;
  } finally {
    await holding.release();
  }
}

/** Each subscription calls the method anew, as it would undecorated, and holds what it needs until it ends. */
function heldStream({ spec, below, service, run, ...call }: Call): Observable<unknown> {
  const left = new AbortController();
  let present: Holding | undefined;
  return bracket({
    open: async () => {
      const key = spec.keyOf(call);
      const holding = await spec.enter(service(), key, call, left.signal);
      if (!holding) return streamOf(spec.instead(service(), key, call));
      if (left.signal.aborted) await holding.release();
      present = holding;
      checkAbove(spec);
      return subscribedIn(
        (fn) => runBelow(spec, below, holding, fn),
        () => {
          const stream = run();
          if (isObservable(stream)) return guarded(stream, spec, holding);
          const message = `${spec.label} is declared to return an Observable, but returned something else`;
          return throwError(() => new MisuseError(message));
        },
      );
    },
    close: async () => {
      left.abort();
      await present?.release();
    },
  });
}

function unforeseenStream({ decorator, label }: MethodSpec): MisuseError {
  return new MisuseError(
    `${label} has a ${decorator} and gave an Observable, which would have outlasted it. Declare it as returning one, not in a promise: "${label.split('.').at(-1)}(…): Observable<…>", with emitDecoratorMetadata on, and import Observable as a value: "import type" leaves no trace of it`,
  );
}

/** What a call of a method holds by its upper decorators, for the lower ones of the same method. */
interface HeldAbove {
  readonly below: readonly MethodSpec[];
  readonly holdings: readonly Holding[];
}

const present = new AsyncLocalStorage<HeldAbove>();

/** Runs what stands below one of a method's decorators, as the holder of what that one holds. */
export function runBelow<T>(
  spec: MethodSpec,
  below: readonly MethodSpec[],
  holding: Holding,
  fn: () => T,
): T {
  const holdings = [...heldAbove(spec), holding];
  return present.run({ below, holdings }, () => holding.run(fn));
}

/** @throws what was lost above while this decorator waited: the method must not begin without it */
export function checkAbove(spec: MethodSpec): void {
  for (const { signal } of heldAbove(spec)) signal.throwIfAborted();
}

function heldAbove(spec: MethodSpec): readonly Holding[] {
  const held = present.getStore();
  return held?.below.includes(spec) ? held.holdings : [];
}
