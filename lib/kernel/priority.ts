import type { Session, ZkClient } from '../client/index.js';
import { abortable, sleep } from '../client/sleep.js';
import { type QueueNode, queueOf } from './node-names.js';
import { retryRead } from './session-retry.js';
import { RETRY_AFTER } from './session-loop.js';

/*
 * A candidate with a priority has it in the names of its znodes: `_c_<uuid>-p<priority>-latch-<number>`. The znode with
 * the lowest number leads, as in Curator, but a candidate gives way while one with a higher priority is in the queue: it
 * deletes its znode and joins again behind it.
 */

/** A queue of candidates, and the priority of one of them. */
interface Rank {
  readonly parent: string;
  readonly markers: readonly string[];
  readonly priority: number | undefined;
}

/** Returns the marker in the znodes of a candidate. */
export function markerWith(priority: number | undefined, marker: string): string {
  return priority === undefined ? marker : `p${priority}-${marker}`;
}

/** Whether a candidate must give way to another one. */
export function isOutranked(rank: Rank, children: readonly string[]): boolean {
  const { priority } = rank;
  return (
    priority !== undefined && queueOf(rank, children).some((node) => priorityOf(node) > priority)
  );
}

/**
 * Resolves when a candidate must give way to another one. Repeats reads that fail.
 *
 * @throws the reason of `signal`
 */
export async function untilOutranked(
  client: ZkClient,
  session: Session,
  rank: Rank,
  { signal, onError }: { signal: AbortSignal; onError: (error: unknown) => void },
): Promise<void> {
  const read = () => session.children(rank.parent, { watch: true });
  for (;;) {
    try {
      const { children, watch } = await retryRead(client, session, read, signal);
      try {
        if (isOutranked(rank, children)) return;
        await abortable(watch.fired, signal);
      } finally {
        watch.remove();
      }
    } catch (error) {
      if (!signal.aborted) onError(error);
      await sleep(RETRY_AFTER, { signals: [signal] });
    }
  }
}

/** Returns the priority in the name of a znode; 0 without one. */
function priorityOf({ name, marker }: QueueNode): number {
  const [, digits] = /-p(\d+)-$/.exec(name.slice(0, name.lastIndexOf(marker))) ?? [];
  return Number(digits ?? 0);
}
