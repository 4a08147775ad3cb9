/** How many grants one znode can give before its own data must be set for a new zxid. */
const GRANTS_PER_ZXID = 1024n;

/**
 * The token of the `nth` grant that was proved by a listing whose parent had `pzxid`. A release
 * changes the pzxid, so tokens rise from holder to holder without a round trip of their own; a
 * sequence number would not do, it starts again with a new parent.
 */
export function fencingToken(pzxid: number): bigint {
  return BigInt(pzxid) * GRANTS_PER_ZXID;
}
