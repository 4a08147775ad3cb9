import type { Place } from './queue.js';

/*
 * A znode may tell waiters of other processes that it is likely to go soon although nobody released the
 * lock. An acquire with `wait: 0` waits for such a node for a short time; it is refused at once behind any
 * other node. The marks are fields of the JSON that holder-details.ts writes:
 *
 *   "linger": true  The lock may be free: its process deletes the node as soon as another one stands behind it.
 *   "try": true     The node of an acquire with `wait: 0` that has not been granted. Its process deletes the
 *                   node, or removes the mark when the lock is granted.
 */

type Mark = 'linger' | 'try';

/** Callers without details share one array of bytes, and so do their marked copies. */
const marked: Record<Mark, WeakMap<Uint8Array, Uint8Array>> = {
  linger: new WeakMap(),
  try: new WeakMap(),
};

/** @param data the JSON of a holder's details */
export function withMark(data: Uint8Array, mark: Mark): Uint8Array {
  let copy = marked[mark].get(data);
  if (!copy) {
    copy = Buffer.concat([data.subarray(0, -1), Buffer.from(`,"${mark}":true}`)]);
    marked[mark].set(data, copy);
  }
  return copy;
}

/** None where another library or an old version made the node, or somebody revoked the lock. */
export function marksOf(data: Buffer): { readonly lingers: boolean; readonly tries: boolean } {
  try {
    const said = JSON.parse(data.toString()) as Record<string, unknown> | null;
    return { lingers: said?.linger === true, tries: said?.try === true };
  } catch {
    return { lingers: false, tries: false };
  }
}

/**
 * Removes the mark of a try from the node of a lock that was granted, so that the tries of other processes
 * are refused at once. In the background; on failure they are refused later.
 *
 * @param data what the node was made with, without the mark
 */
export function removeTryMark({ session, nodes, said }: Place, data: Uint8Array): void {
  // By version, so that a request for revocation stays.
  session.set(nodes[0]!, data, said?.version ?? 0).catch(() => {});
}
