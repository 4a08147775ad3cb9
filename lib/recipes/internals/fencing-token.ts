/** How many grants one znode can give before its own data must be set for a new zxid. */
export const GRANTS_PER_ZXID = 1024;

/**
 * The token of the `nth` grant after the zxid that proved the first of them: the parent's pzxid in the
 * listing. A release changes that, so tokens rise from holder to holder without a round trip of their
 * own; a sequence number would not do, it starts again with a new parent.
 */
export function fencingToken(zxid: number, n = 0): bigint {
  return BigInt(zxid) * BigInt(GRANTS_PER_ZXID) + BigInt(n);
}

/** A release that nobody has to wait for. One for all, and whoever knows it by sight spares the wait. */
export const AT_ONCE = Promise.resolve();
