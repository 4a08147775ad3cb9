/*
 * A lock that lingers is free, but its znode is still there: its process deletes the znode as soon as
 * another node stands behind it. The JSON of such a node, which holder-details.ts writes, has the field
 * `"linger": true`. Behind it an acquire with `wait: 0` waits for a short time; behind any other node it
 * is refused at once.
 */

/** Callers without details share one array of bytes, and so do their marked copies. */
const marked = new WeakMap<Uint8Array, Uint8Array>();

/** @param data the JSON of a holder's details */
export function withLingerMark(data: Uint8Array): Uint8Array {
  let copy = marked.get(data);
  if (!copy) {
    copy = Buffer.concat([data.subarray(0, -1), Buffer.from(',"linger":true}')]);
    marked.set(data, copy);
  }
  return copy;
}

/** False where another library or an old version made the node, or somebody revoked the lock. */
export function hasLingerMark(data: Buffer): boolean {
  try {
    return (JSON.parse(data.toString()) as { linger?: unknown } | null)?.linger === true;
  } catch {
    return false;
  }
}
