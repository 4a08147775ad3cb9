/*
 * What the znode of a waiter says beside its holder details: which other znodes stay until its wait is over. With
 * handover one znode stands for many callers, so it has the claims of each of them.
 */

/** A claim that a znode is held by a call chain that waits. One process makes it to the others. */
export interface Claim {
  /** The znode that is held. No other znode ever has the same name. */
  readonly node: string;
  /** The key of that lock for its holder. */
  readonly key: string;
  /** When the wait began, in milliseconds by the clock of the machine. */
  readonly since: number;
  /** When the wait times out, by the same clock; undefined for never. */
  readonly until?: number;
  /** Whether the wait may be refused to end a deadlock. */
  readonly refuse?: boolean;
  /** The znode that the chain waits behind, if it is another one of the same process. */
  readonly behind?: string;
}

/** The most claims in a znode, to keep it small. A cycle through further ones is not found. */
const MOST_CLAIMS = 64;

/** @param data holder details */
export function withClaims(data: Uint8Array, claims: readonly Claim[]): Uint8Array {
  if (claims.length === 0) return data;
  const details = JSON.parse(Buffer.from(data).toString()) as object;
  return Buffer.from(JSON.stringify({ ...details, holds: claims.slice(0, MOST_CLAIMS) }));
}

/** Returns the claims in the data of a znode; none for a znode of another library. */
export function claimsIn(data: Buffer): readonly Claim[] {
  try {
    const { holds } = JSON.parse(data.toString()) as { holds?: unknown };
    return Array.isArray(holds) ? holds.filter(isClaim).slice(0, MOST_CLAIMS) : [];
  } catch {
    return [];
  }
}

function isClaim(claim: unknown): claim is Claim {
  if (typeof claim !== 'object' || claim === null) return false;
  const { node, key, since, until, behind } = claim as Partial<Record<keyof Claim, unknown>>;
  return (
    typeof node === 'string' &&
    typeof key === 'string' &&
    typeof since === 'number' &&
    (until === undefined || typeof until === 'number') &&
    (behind === undefined || typeof behind === 'string')
  );
}
