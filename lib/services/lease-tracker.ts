import { BadOptionError, ShuttingDownError } from '../client/errors.js';
import type { Lock } from '../recipes/index.js';
import { FifoSet } from '../recipes/internals/fifo-set.js';
import { HeldLeases } from './held-leases.js';

/** What is asked for, as far as a shutdown goes. */
interface Passage {
  /** Of the lock or semaphore, for errors. */
  readonly key: string;
  readonly noun: string;
  /** The caller holds it already and takes nothing new: refusing that would break what a shutdown waits for. */
  readonly reenters: boolean;
  readonly signal: AbortSignal | undefined;
  /** Which say who holds it. */
  readonly locks: readonly Pick<Lock, 'participants'>[];
}

/** One who waits, and what cancels that. */
export interface Wait extends Omit<Passage, 'signal'> {
  readonly cancel: AbortController;
}

/**
 * Where all go through who take something on one connection: a shutdown closes it, sends away those
 * who wait, and waits for those who hold.
 */
export class Turnstile {
  readonly leases = new HeldLeases();
  /** Those who wait now. */
  readonly waits = new FifoSet<Wait>();
  private refusal: ShuttingDownError | undefined;

  /** `take` gets a signal that the caller's own aborts, and a shutdown. */
  async pass<T>(
    { signal, ...asked }: Passage,
    take: (signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    if (signal !== undefined && !(signal instanceof AbortSignal)) {
      throw new BadOptionError('signal', signal, 'an AbortSignal');
    }
    if (this.refusal && !asked.reenters) throw refused(asked, this.refusal);

    // Not AbortSignal.any: a signal as old as the application would gather dependents of every call.
    const cancel = new AbortController();
    const onAbort = () => cancel.abort(signal?.reason);
    if (signal?.aborted) onAbort();
    signal?.addEventListener('abort', onAbort);
    const wait = { ...asked, cancel };
    this.waits.add(wait);
    try {
      return await take(cancel.signal);
    } catch (error) {
      throw this.refusal && cancel.signal.reason === this.refusal
        ? refused(asked, this.refusal)
        : error;
    } finally {
      this.waits.delete(wait);
      signal?.removeEventListener('abort', onAbort);
    }
  }

  /** From now on whoever asks, and whoever waits, gets a ShuttingDownError. Idempotent. */
  refuse(): void {
    this.refusal ??= new ShuttingDownError('the application is shutting down');
    for (const { cancel } of this.waits) cancel.abort(this.refusal);
  }

  /**
   * Refuses new holders, and waits at most `limit` milliseconds for the present ones. Resolves with the keys
   * of what did not come back in time: it ends with the session, and its holders are told by that.
   */
  drain(limit: number): Promise<string[]> {
    this.refuse();
    return this.leases.drained(limit);
  }
}

function refused(
  { key, noun }: Pick<Passage, 'key' | 'noun'>,
  cause: ShuttingDownError,
): ShuttingDownError {
  return new ShuttingDownError(`${noun} ${JSON.stringify(key)} is refused: ${cause.message}`, {
    key,
    cause,
  });
}
