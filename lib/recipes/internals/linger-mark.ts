/*
 * The mark of a lock that may linger. Such a lock is free although its znode exists: its process deletes the znode as
 * soon as another znode is behind it. The JSON of the znode (holder-data.ts) has the field `"linger": true`. Behind such a
 * znode a try (an acquire with `wait: 0`) waits for a short time. Behind any other znode it is refused at once.
 */

/** Callers without details share one array of bytes, and so do their marked copies. */
const marked = new WeakMap<Uint8Array, Uint8Array>();

/** @param data the JSON of holder details */
export function withLingerMark(data: Uint8Array): Uint8Array {
  let copy = marked.get(data);
  if (!copy) {
    copy = Buffer.concat([data.subarray(0, -1), Buffer.from(',"linger":true}')]);
    marked.set(data, copy);
  }
  return copy;
}

/** Returns false for a znode of another library, and after a revocation, which replaces the data. */
export function hasLingerMark(data: Buffer): boolean {
  try {
    return (JSON.parse(data.toString()) as { linger?: unknown } | null)?.linger === true;
  } catch {
    return false;
  }
}
