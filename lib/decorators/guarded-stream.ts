import { types } from 'node:util';
import { from, isObservable, mergeMap, Observable } from 'rxjs';
import { onAbort } from '../client/sleep.js';
import { type CallGuard, MisuseError, type Requirement } from './requirement.js';

/**
 * As rxjs' `using`, with asynchronous steps: `open` resolves to the source; `close` settles before the
 * subscriber is notified of the source's end. If the subscriber unsubscribes, even while `open` is
 * pending, `close` runs too, with `unsubscribed`. It runs once more after the end, so it must be idempotent.
 * `close` waits for emitted promises: Nest awaits the one that it answers with, such as the commit of `map(async …)`.
 *
 * If the subscriber unsubscribes before the first value, `outlives` decides whether the source continues until its first
 * value or its end: interceptors may still work on it, as `mergeMap(async …)` does. Default: it stops. An error that no
 * subscriber can receive goes to `onDropped`.
 */
export function usingAsync<T>({
  open,
  outlives = () => false,
  onDropped,
  close,
}: {
  open: () => Promise<Observable<T>>;
  outlives?: () => boolean;
  onDropped?: (error: unknown) => void;
  close: (unsubscribed: boolean) => Promise<void>;
}): Observable<T> {
  return new Observable<T>((subscriber) => {
    let hasValue = false;
    let abandoned = false;
    const emitted = new Set<Promise<unknown>>();
    /** Emits a promise for a thenable, because each `then` of a lazy one, such as a query builder, would run it. */
    const track = (thenable: PromiseLike<unknown>) => {
      const promise = Promise.resolve(thenable);
      emitted.add(promise);
      const forget = () => void emitted.delete(promise);
      promise.then(forget, (error) => {
        forget();
        if (abandoned) onDropped?.(error);
      });
      return promise as T;
    };
    const closeAfterEmitted = async (unsubscribed: boolean) => {
      if (emitted.size > 0) await Promise.allSettled(emitted);
      await close(unsubscribed);
    };
    const closeThen = (notify: () => void) => void closeAfterEmitted(false).then(notify, notify);
    const end = () => {
      source.unsubscribe();
      void closeAfterEmitted(true);
    };
    const source = from(open())
      .pipe(mergeMap((stream) => stream))
      .subscribe({
        next: (value) => {
          hasValue = true;
          subscriber.next(isThenable(value) ? track(value) : value);
          if (abandoned) end();
        },
        error: (error) =>
          closeThen(() => {
            // It may have unsubscribed while `close` ran.
            if (subscriber.closed) onDropped?.(error);
            else subscriber.error(error);
          }),
        complete: () => closeThen(() => subscriber.complete()),
      });
    return () => {
      abandoned = !hasValue && outlives();
      if (!abandoned) end();
    };
  });
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof (value as { then?: unknown } | null | undefined)?.then === 'function';
}

/** Converts the result of a method as Nest does: a stream, a value, or a promise of a value. */
export function toObservable(result: unknown): Observable<unknown> {
  return isObservable(result) ? result : from(Promise.resolve(result));
}

/** Subscribes to the stream inside `run`, so that the work of the stream runs as the holder. */
export function subscribedIn<T>(
  run: <R>(fn: () => R) => R,
  stream: () => Observable<T>,
): Observable<T> {
  return new Observable<T>((subscriber) => run(() => stream().subscribe(subscriber)));
}

/** Makes the stream that a method returned fail at the moment when the guard is lost. */
export function guardedStream<T>(
  stream: Observable<T>,
  { failsOnLoss }: Requirement,
  { signal }: CallGuard,
  toError: (loss: unknown) => unknown = (loss) => loss,
): Observable<T> {
  if (!failsOnLoss) return stream;
  return new Observable<T>((subscriber) => {
    subscriber.add(onAbort(signal, () => subscriber.error(toError(signal.reason))));
    if (!signal.aborted) stream.subscribe(subscriber);
  });
}

/** @throws MisuseError for a generator: its caller would iterate it after the release */
export function checkNotGenerator(result: unknown, { decorator, label }: Requirement): void {
  if (!types.isGeneratorObject(result)) return;
  throw new MisuseError(
    `${label} has a ${decorator} but returned a generator, which would run after the release. Return an Observable of it ("from(…)" of rxjs), or the values it yields`,
  );
}
