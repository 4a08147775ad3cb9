/** The longest timer of Node in milliseconds, 24.8 days. A longer wait ends then, too. */
export const MAX_TIMER = 2 ** 31 - 1;

/**
 * Resolves after a number of milliseconds.
 *
 * @param until called at once with a function that ends the sleep early; returns a function that is
 *   called when the sleep is over
 * @param ref whether the timer keeps the process alive; default false
 * @throws the reason of the first signal that aborts
 */
export function sleep(
  milliseconds: number,
  {
    signals = [],
    until,
    ref = false,
  }: {
    signals?: readonly (AbortSignal | undefined)[];
    until?: (wake: () => void) => () => void;
    ref?: boolean;
  } = {},
): Promise<void> {
  const aborted = signals.find((signal) => signal?.aborted);
  if (aborted) return Promise.reject(aborted.reason);
  return new Promise((resolve, reject) => {
    const cleanUps: (() => void)[] = [];
    const cleanUp = () => {
      for (const undo of cleanUps.splice(0)) undo();
    };
    for (const signal of signals) {
      const abort = () => {
        cleanUp();
        reject(signal!.reason);
      };
      cleanUps.push(onAbort(signal, abort));
    }
    const wake = () => {
      cleanUp();
      resolve();
    };
    const timer = setTimeout(wake, milliseconds);
    if (!ref) timer.unref();
    cleanUps.push(() => clearTimeout(timer));
    if (until) cleanUps.push(until(wake));
  });
}

/** Returns a value for the option `until` of {@link sleep}: the sleep ends when one of the promises settles. */
export function whenSettled(...promises: readonly Promise<unknown>[]) {
  return (wake: () => void) => {
    for (const each of promises) each.then(wake, wake);
    return () => {};
  };
}

/**
 * Settles with `promise`, or rejects with the signal's reason. No listener is left on the signal, and a later rejection of
 * `promise` counts as handled.
 */
export function abortable<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (!signal) return promise;
  return new Promise<T>((resolve, reject) => {
    const removeListener = onAbort(signal, () => reject(signal.reason));
    promise.then(resolve, reject).finally(removeListener);
  });
}

/** Calls a listener when a signal aborts, or at once if it has aborted. Returns a function that removes the listener. */
export function onAbort(signal: AbortSignal | undefined, listener: () => void): () => void {
  if (signal?.aborted) listener();
  else signal?.addEventListener('abort', listener, { once: true });
  return () => signal?.removeEventListener('abort', listener);
}

/** Returns a signal that aborts with another one, or after a number of milliseconds. */
export function abortedAfter(milliseconds: number, signal: AbortSignal): AbortSignal {
  const timeout = AbortSignal.timeout(milliseconds);
  // Node 20 frees a timeout that only AbortSignal.any() refers to, and its signal never aborts.
  onAbort(timeout, () => {});
  return AbortSignal.any([signal, timeout]);
}

/** Resolves when a signal aborts. */
export function untilAborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => void onAbort(signal, resolve));
}

/** Whether an error comes from the abort of a signal: its reason, or an error that is caused by it. */
export function isAbortBy({ aborted, reason }: AbortSignal, error: unknown): boolean {
  // In Jest, the errors of Node's modules are no instances of the Error of this module.
  return aborted && (error === reason || (error as Error | null | undefined)?.cause === reason);
}
