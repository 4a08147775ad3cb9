import { now } from '../clock.js';

/**
 * Measures the memory of waiters in this process while the lock is held. The waiters keep waiting, so the
 * process cannot be used again.
 *
 * @param settle resolves when all waiters are only waiting
 */
export async function memory(waiters, acquire, settle) {
  await acquire();
  const before = used();
  const start = now();
  for (let waiter = 0; waiter < waiters; waiter++) void acquire();
  await settle();
  const seconds = (now() - start) / 1000;
  return { seconds, bytes: used() - before };
}

function used() {
  // The process runs with --expose-gc.
  globalThis.gc?.();
  return process.memoryUsage.rss();
}
