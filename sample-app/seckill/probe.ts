import { setTimeout as wait } from 'node:timers/promises';
import type { ZkClient } from 'nestjs-zookeeper';
import { monotonicNow } from './clock.js';

/** Milliseconds between an answer and the next request. */
const INTERVAL = 250;

/**
 * Sends one request after another to the leader of the ensemble until the signal aborts. Calls the listener after each
 * answer with the time at which its request was sent: an answer that was received late, for example after a pause of
 * this process, confirms only that time.
 */
export async function probe(
  client: ZkClient,
  onAnswer: (sentAt: number) => void,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    const sentAt = monotonicNow();
    try {
      await client.sync('/');
      onAnswer(sentAt);
    } catch {
      // The client reconnects by itself.
    }
    await wait(INTERVAL, undefined, { ref: false, signal }).catch(() => undefined);
  }
}
