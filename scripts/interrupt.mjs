import { setMaxListeners } from 'node:events';

/** Aborts `stop` at the first SIGINT or SIGTERM, so that the command can tidy up, until `forget` is called. */
export function stopAtInterrupt() {
  const stop = new AbortController();
  setMaxListeners(0, stop.signal);
  const interrupt = () => stop.abort(new Error('interrupted'));
  process.once('SIGINT', interrupt).once('SIGTERM', interrupt);
  const forget = () =>
    process.removeListener('SIGINT', interrupt).removeListener('SIGTERM', interrupt);
  return { stop, forget };
}

/** What `work` comes to, or a rejection as soon as the signal aborts. */
export function unlessAborted(signal, work) {
  return new Promise((resolve, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason), { once: true });
    work.then(resolve, reject);
  });
}
