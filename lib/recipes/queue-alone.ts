import { chainNow } from './chain.js';
import { type Line, lookAfter } from './deadlock/detector.js';
import type { Grant, Recipe } from './grant.js';
import { holderData } from './holder-details.js';
import type { AcquireOptions } from './lease.js';
import type { Lock } from './lock.js';
import { takeTurn } from './queue.js';
import type { QueueNames } from './queue-names.js';
import { Tenure } from './tenure.js';
import { Tries } from './tries.js';
import { cancelled, NOBODY_WAITS, Waiter } from './wait.js';

/** One caller's wait in the ensemble's queue, by a node of its own. */
export async function queueAlone(
  lock: Lock,
  recipe: Recipe,
  { wait = Infinity, signal, details, onDeadlock }: AcquireOptions,
  names: QueueNames,
): Promise<Grant> {
  if (signal?.aborted) throw cancelled(lock, signal);
  const { client, path } = lock;
  const data = holderData(details);
  // Until it is taken. An abort that nobody needs costs more than a hand-over.
  let turn: AbortController | undefined = new AbortController();
  const waiter = new Waiter<Grant>(lock, wait, signal, data, () => turn?.abort(NOBODY_WAITS));
  const line: Line = { client, waiters: [waiter], waiting: undefined, behind: undefined };
  lookAfter(waiter, line, onDeadlock, chainNow());
  const tries = new Tries();
  tries.add(waiter);
  takeTurn(
    client,
    { ...names, parent: path, data },
    { signal: turn.signal, onBlocked: (node) => (line.waiting = node), tries },
  ).then(
    (place) => {
      turn = undefined;
      const grant = new Tenure(client, recipe, path, place).grant();
      if (!waiter.resolve(grant)) grant.abandon();
    },
    (error: unknown) => waiter.reject(error),
  );
  return waiter.promise;
}
