import { types } from 'node:util';
import { from, isObservable, mergeMap, Observable } from 'rxjs';
import type { Holding } from '../services/call-guard.js';
import { MisuseError } from './requirement.js';
import type { MethodSpec } from './requirement.js';

/**
 * A stream between two actions: `open` gives the source, `close` is done before the subscriber hears
 * of the source's end, and runs too where the subscriber leaves, even while `open` is under way.
 * `close` must be idempotent.
 */
export function bracket<T>({
  open,
  close,
}: {
  open: () => Promise<Observable<T>>;
  close: () => Promise<void>;
}): Observable<T> {
  return new Observable<T>((subscriber) => {
    const end = (tell: () => void) => void close().then(tell, tell);
    const source = from(open())
      .pipe(mergeMap((stream) => stream))
      .subscribe({
        next: (value) => subscriber.next(value),
        error: (error) => end(() => subscriber.error(error)),
        complete: () => end(() => subscriber.complete()),
      });
    return () => {
      source.unsubscribe();
      void close();
    };
  });
}

/** What a method returned, as Nest takes it: a stream, a value or a promise of one. */
export function streamOf(value: unknown): Observable<unknown> {
  return isObservable(value) ? value : from(Promise.resolve(value));
}

/** Subscribes the stream inside of `run`: what it starts belongs to the holder. */
export function subscribedIn<T>(
  run: <R>(fn: () => R) => R,
  stream: () => Observable<T>,
): Observable<T> {
  return new Observable<T>((subscriber) => run(() => stream().subscribe(subscriber)));
}

/** The stream that a method returned: it fails the moment that what it needs is lost, since it can be stopped. */
export function guarded<T>(
  stream: Observable<T>,
  { failsOnLoss }: MethodSpec,
  { signal }: Holding,
  raise: (loss: unknown) => unknown = (loss) => loss,
): Observable<T> {
  if (!failsOnLoss) return stream;
  return new Observable<T>((subscriber) => {
    const fail = () => subscriber.error(raise(signal.reason));
    signal.addEventListener('abort', fail);
    subscriber.add(() => signal.removeEventListener('abort', fail));
    if (signal.aborted) fail();
    else stream.subscribe(subscriber);
  });
}

/** @throws MisuseError for a generator, which runs when it is iterated: after what its method held is given back */
export function checkBegun(value: unknown, { decorator, label }: MethodSpec): void {
  if (!types.isGeneratorObject(value)) return;
  throw new MisuseError(
    `${label} has a ${decorator} and gave a generator, which would have run without it. Return an Observable of it ("from(…)" of rxjs), or what it yields`,
  );
}
