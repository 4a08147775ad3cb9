import { setMaxListeners } from 'node:events';

/** Aborts `stop` at the first SIGINT or SIGTERM, so that the command can clean up, until `forget` is called. */
export function stopAtInterrupt(): { stop: AbortController; forget: () => void } {
  const stop = new AbortController();
  setMaxListeners(0, stop.signal);
  const interrupt = () => stop.abort(new Error('interrupted'));
  process.once('SIGINT', interrupt).once('SIGTERM', interrupt);
  const forget = () =>
    void process.removeListener('SIGINT', interrupt).removeListener('SIGTERM', interrupt);
  return { stop, forget };
}

/** Settles as `work` does, but rejects as soon as the signal aborts. */
export function unlessAborted<T>(signal: AbortSignal, work: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason), { once: true });
    work.then(resolve, reject);
  });
}
