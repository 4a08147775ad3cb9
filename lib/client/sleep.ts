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
  return new Promise((resolve, reject) => {
    const cleanUps: (() => void)[] = [];
    const cleanUp = () => {
      for (const undo of cleanUps.splice(0)) undo();
    };
    for (const signal of signals) {
      if (!signal) continue;
      if (signal.aborted) {
        cleanUp();
        return reject(signal.reason);
      }
      const abort = () => {
        cleanUp();
        reject(signal.reason);
      };
      signal.addEventListener('abort', abort, { once: true });
      cleanUps.push(() => signal.removeEventListener('abort', abort));
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
