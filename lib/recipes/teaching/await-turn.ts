import type { AcquireOptions } from '../lease.js';
import { cancelled, Waiter, type Wanted } from '../wait.js';

export interface Turn {
  /** Aborts when nobody wants the turn anymore. */
  readonly signal: AbortSignal;
  /** Called whenever somebody else has the lock. */
  readonly onBlocked: () => void;
}

const NO_DATA = new Uint8Array();

/** One caller's wait for what `take` resolves with; a result that comes too late is given back. */
export async function awaitTurn<T>(
  wanted: Wanted,
  { wait = Infinity, signal }: Pick<AcquireOptions, 'wait' | 'signal'>,
  take: (turn: Turn) => Promise<T>,
  giveBack: (result: T) => void,
): Promise<T> {
  if (signal?.aborted) throw cancelled(wanted, signal);
  const turn = new AbortController();
  const waiter = new Waiter<T>(wanted, wait, signal, NO_DATA, () => turn.abort());
  take({ signal: turn.signal, onBlocked: () => waiter.blocked() }).then(
    (result) => {
      if (!waiter.resolve(result)) giveBack(result);
    },
    (error: unknown) => waiter.reject(error),
  );
  return waiter.promise;
}
