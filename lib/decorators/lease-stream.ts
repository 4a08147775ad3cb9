import { from, mergeMap, Observable } from 'rxjs';
import type { Entry } from '../recipes/index.js';
import type { LeaseSpec } from './lease-spec.js';

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

/** Subscribes the stream inside of `run`: what it starts belongs to the holder of the lock. */
export function subscribedIn<T>(
  run: <R>(fn: () => R) => R,
  stream: () => Observable<T>,
): Observable<T> {
  return new Observable<T>((subscriber) => run(() => stream().subscribe(subscriber)));
}

/** The stream that a locked method returned: it fails the moment its lease is lost, since it can be stopped. */
export function guarded<T>(
  stream: Observable<T>,
  spec: LeaseSpec,
  { lease }: Entry,
  raise: (loss: unknown) => unknown = (loss) => loss,
): Observable<T> {
  if (spec.onLost === 'ignore') return stream;
  return new Observable<T>((subscriber) => {
    const { signal } = lease;
    const fail = () => subscriber.error(raise(signal.reason));
    signal.addEventListener('abort', fail);
    subscriber.add(() => signal.removeEventListener('abort', fail));
    if (signal.aborted) fail();
    else stream.subscribe(subscriber);
  });
}
