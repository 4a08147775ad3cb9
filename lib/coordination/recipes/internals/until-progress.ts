import type { Listeners } from '../../../client/listeners.js';
import { MAX_TIMER, sleep } from '../../../client/sleep.js';
import { LockTimeoutError } from '../../../recipes/errors.js';
import { cancelled } from '../../../recipes/internals/waiter.js';
import { checkAcquire, WAIT_OPTIONS } from '../../../recipes/lease.js';
import type { WaitOptions } from './wait-limit.js';

/**
 * Waits until `isDone` returns true, which is asked after each progress.
 *
 * @param path of the znode that the caller waits for
 * @param closing ends the wait with its reason
 * @throws LockTimeoutError, WaitCancelledError, the reason of `closing`, what `isDone` throws
 */
export async function untilProgress(
  progress: Listeners<void>,
  isDone: () => boolean,
  path: string,
  options: WaitOptions,
  closing: AbortSignal,
): Promise<void> {
  checkAcquire(options, WAIT_OPTIONS);
  const { wait = Infinity, signal } = options;
  const deadline = performance.now() + wait;
  for (;;) {
    closing.throwIfAborted();
    if (signal?.aborted) throw cancelled({ noun: 'znode', key: path }, signal);
    if (isDone()) return;
    const left = deadline - performance.now();
    if (left <= 0) {
      throw new LockTimeoutError(`znode ${path} was not created within ${wait} ms`, { key: path });
    }
    const until = (wake: () => void) => progress.add(wake);
    // It rejects only by a signal, which the loop checks.
    await sleep(Math.min(left, MAX_TIMER), { signals: [signal, closing], until, ref: true }).catch(
      () => {},
    );
  }
}
