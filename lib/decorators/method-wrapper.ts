import { defer, EMPTY, isObservable, type Observable, throwError } from 'rxjs';
import type { Entry } from '../recipes/index.js';
import { MisuseError } from './errors.js';
import { HandlerCall } from './handler-call.js';
import { injectedService } from './injected-service.js';
import type { Holder } from './lease-kind.js';
import { bracket, guarded, subscribedIn } from './lease-stream.js';
import type { LeaseSpec } from './lease-spec.js';

/** One call of a locked method outside of a handler. */
interface Call {
  readonly spec: LeaseSpec;
  readonly args: unknown[];
  /** @throws MisuseError where Nest did not make the object the method is called on. */
  service(): Holder;
  run(): unknown;
}

/**
 * The method, locked. In a handler's call the interceptor owns the lease, and the wrapper hands it
 * the final arguments; in every other call the wrapper owns it. A Proxy, so that the method keeps its
 * name, its length and its properties.
 */
export function wrapMethod<M extends (...args: never[]) => unknown>(
  method: M,
  spec: LeaseSpec,
  property: symbol,
): M {
  return new Proxy(method, {
    apply(target, self: unknown, args: unknown[]) {
      const run = () => Reflect.apply(target, self, args) as unknown;
      const handlerCall = HandlerCall.claim(spec, args);
      if (handlerCall) return handlerCall.run(spec, args, run);
      const service = () => injectedService(self, property, spec);
      const call: Call = { spec, args, service, run };
      return spec.streams ? defer(() => lockedStream(call)) : lockedPromise(call);
    },
  });
}

async function lockedPromise({ spec, args, service, run }: Call): Promise<unknown> {
  const entry = await spec.enter(service(), spec.keyOf(args, undefined), undefined);
  if (!entry) return undefined;
  try {
    const value = await entry.run(run);
    if (isObservable(value)) throw unforeseenStream(spec);
    const loss = spec.lossOf(entry);
    if (loss) throw loss;
    return value;
  } finally {
    await entry.release();
  }
}

/** Each subscription calls the method anew, as it would without a lock, and holds the lock until it ends. */
function lockedStream({ spec, args, service, run }: Call): Observable<unknown> {
  const left = new AbortController();
  let entry: Entry | undefined;
  return bracket({
    open: async () => {
      const holder = await spec.enter(service(), spec.keyOf(args, undefined), left.signal);
      if (!holder) return EMPTY;
      if (left.signal.aborted) await holder.release();
      entry = holder;
      return subscribedIn(holder.run, () => {
        const stream = run();
        if (isObservable(stream)) return guarded(stream, spec, holder);
        return throwError(
          () =>
            new MisuseError(
              `${spec.label} is declared to return an Observable, but returned something else`,
            ),
        );
      });
    },
    close: async () => {
      left.abort();
      await entry?.release();
    },
  });
}

function unforeseenStream({ kind, label }: LeaseSpec): MisuseError {
  return new MisuseError(
    `${label} has a ${kind.decorator} and gave an Observable, whose end the lock would not have outlasted. Declare it as returning one, not in a promise: "${label.split('.').at(-1)}(…): Observable<…>", with emitDecoratorMetadata on`,
  );
}
