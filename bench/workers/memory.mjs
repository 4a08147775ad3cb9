import { now } from '../clock.mjs';

/**
 * What waiters take in this process while somebody holds the lock that they wait for. They wait on: the
 * process is of no further use.
 *
 * @param settle resolves once whoever has asked does nothing but wait
 */
export async function memory({ waiters }, acquire, settle) {
  await acquire();
  const before = used();
  const start = now();
  for (let waiter = 0; waiter < Number(waiters); waiter++) void acquire();
  await settle();
  const seconds = (now() - start) / 1000;
  return { seconds, bytes: used() - before };
}

function used() {
  globalThis.gc();
  return process.memoryUsage.rss();
}
