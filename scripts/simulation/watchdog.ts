import { once } from 'node:events';
import { Worker } from 'node:worker_threads';

/** The code of another thread, because timers of this thread do not fire during an endless loop. */
const THREAD_CODE = `
  const { workerData: { text, delay } } = require('node:worker_threads');
  setTimeout(() => require('node:fs').writeSync(2, text + '\\n'), delay);
`;

/**
 * Prints a line to stderr after a delay in milliseconds, even if an endless loop blocks this thread.
 *
 * @returns a function that cancels the output
 */
export async function warnWhenLate(text: string, delay: number): Promise<() => void> {
  const thread = new Worker(THREAD_CODE, { eval: true, workerData: { text, delay } });
  await once(thread, 'online');
  thread.unref();
  return () => void thread.terminate();
}
