import { AsyncLocalStorage } from 'node:async_hooks';
import { defer, isObservable, type Observable, throwError } from 'rxjs';
import {
  checkNotGenerator,
  guardedStream,
  subscribedIn,
  toObservable,
  usingAsync,
} from './guarded-stream.js';
import { HandlerCall } from './handler-call.js';
import { injectedService } from './injected-service.js';
import {
  type CallGuard,
  type MethodCall,
  MisuseError,
  type Requirement,
  requirementsOf,
} from './requirement.js';

/** One call of a decorated method that is not part of a handler's call. */
interface Call extends MethodCall {
  readonly requirement: Requirement;
  /** The requirements of the same method's lower decorators. */
  readonly inner: readonly Requirement[];
  /** @throws MisuseError if Nest did not create the instance */
  service(): unknown;
  run(): unknown;
}

/**
 * Wraps a method so that it runs only while `requirement` is met. In a handler's call the interceptor
 * owns the guard, and the wrapper passes it the final arguments; in other calls the wrapper owns the
 * guard. A Proxy, because it keeps the method's name, length and properties.
 */
export function wrapMethod<M extends (...args: never[]) => unknown>(
  method: M,
  requirement: Requirement,
  property: symbol,
): M {
  const inner = requirementsOf(method);
  return new Proxy(method, {
    apply(target, self: unknown, args: unknown[]) {
      const run = () => Reflect.apply(target, self, args) as unknown;
      const handlerCall = HandlerCall.claim(requirement, self, args);
      if (handlerCall) return handlerCall.run(requirement, self, args, run);
      const service = () => injectedService(self, property, requirement);
      const call: Call = { requirement, inner, self, args, context: undefined, service, run };
      return requirement.returnsObservable ? defer(() => guardStream(call)) : guardPromise(call);
    },
  });
}

async function guardPromise({ requirement, inner, service, run, ...call }: Call): Promise<unknown> {
  const key = requirement.keyOf(call);
  const guard = await requirement.acquire(service(), key, call, undefined);
  if (!guard) return requirement.fallback(service(), key, call);
  try {
    checkOuterGuards(requirement);
    const value = await runInner(requirement, inner, guard, run);
    if (isObservable(value)) throw undeclaredStream(requirement);
    checkNotGenerator(value, requirement);
    const loss = requirement.lossOf(guard);
    if (loss) throw loss;
    return value;
  } finally {
    await guard.release();
  }
}

/** Each subscription calls the method again, as without the decorator, and has its own guard. */
function guardStream({ requirement, inner, service, run, ...call }: Call): Observable<unknown> {
  const closed = new AbortController();
  let guard: CallGuard | undefined;
  return usingAsync({
    open: async () => {
      const key = requirement.keyOf(call);
      const acquired = await requirement.acquire(service(), key, call, closed.signal);
      if (!acquired) return toObservable(requirement.fallback(service(), key, call));
      if (closed.signal.aborted) await acquired.release();
      guard = acquired;
      checkOuterGuards(requirement);
      return subscribedIn(
        (fn) => runInner(requirement, inner, acquired, fn),
        () => {
          const stream = run();
          if (isObservable(stream)) return guardedStream(stream, requirement, acquired);
          const message = `${requirement.label} is declared to return an Observable, but returned something else`;
          return throwError(() => new MisuseError(message));
        },
      );
    },
    close: async (unsubscribed) => {
      closed.abort();
      await guard?.release(unsubscribed);
    },
  });
}

function undeclaredStream({ decorator, label }: Requirement): MisuseError {
  return new MisuseError(
    `${label} has a ${decorator} but returned an Observable, which would run after the release. Declare its return type as an Observable, not as a promise: "${label.split('.').at(-1)}(…): Observable<…>", with emitDecoratorMetadata on, and import Observable as a value: "import type" leaves no metadata`,
  );
}

/** The guards that the outer decorators of a method acquired for one call of it. */
interface OuterGuards {
  /** The requirements of the inner decorators. */
  readonly inner: readonly Requirement[];
  readonly guards: readonly CallGuard[];
}

const outerGuards = new AsyncLocalStorage<OuterGuards>();

/** Runs `fn`, the method with its inner decorators, as the holder of `guard`. */
function runInner<T>(
  requirement: Requirement,
  inner: readonly Requirement[],
  guard: CallGuard,
  fn: () => T,
): T {
  const guards = [...outerGuardsOf(requirement), guard];
  return outerGuards.run({ inner, guards }, () => guard.run(fn));
}

/** Throws if an outer guard was lost while this one was acquired: the method must not start without it. */
function checkOuterGuards(requirement: Requirement): void {
  for (const { signal } of outerGuardsOf(requirement)) signal.throwIfAborted();
}

function outerGuardsOf(requirement: Requirement): readonly CallGuard[] {
  const outer = outerGuards.getStore();
  return outer?.inner.includes(requirement) ? outer.guards : [];
}
