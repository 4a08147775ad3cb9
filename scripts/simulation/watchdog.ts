import { once } from 'node:events';
import { Worker } from 'node:worker_threads';

/** Runs in a thread: an endless loop keeps this one's timers from firing. */
const CODE = `
  const { workerData: { text, delay } } = require('node:worker_threads');
  setTimeout(() => require('node:fs').writeSync(2, text + '\\n'), delay);
`;

/** Prints a line to stderr after a while, even when an endless loop blocks this thread. Returns what stops it. */
export async function warnWhenLate(text: string, delay: number): Promise<() => void> {
  const thread = new Worker(CODE, { eval: true, workerData: { text, delay } });
  await once(thread, 'online');
  thread.unref();
  return () => void thread.terminate();
}
