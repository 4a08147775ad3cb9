/**
 * Waits for a time, or for less: `done` may end the wait early. It is called with the function that
 * does so, and returns what takes that back.
 *
 * The timer keeps the process alive only where `ref` says so.
 *
 * @throws the signal's reason, once it aborts
 */
export function wait(
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
