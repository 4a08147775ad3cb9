/*
 * What the znode of a waiter says beside its holder's details: which other znodes stay until its wait
 * is over. With hand-over one znode stands for many callers, so it says so of each of them.
 */

/** That a znode is held by a call chain that waits. It is what one process tells the others. */
export interface Claim {
  /** The znode that is held, of a name that no other ever has. */
  readonly node: string;
  /** What its holder calls that lock. */
  readonly key: string;
  /** Since when the chain waits: milliseconds by its machine's clock. */
  readonly since: number;
  /** When the wait ends by itself, by the same clock; undefined: never. */
  readonly until?: number;
  /** The wait may be refused to end a deadlock. */
  readonly refuse?: boolean;
  /** The znode that the chain waits behind, where that is another one of its own process. */
  readonly behind?: string;
}

/** Claims in a znode: it is to stay small. A cycle through what is left out is not found. */
const MOST_CLAIMS = 64;

/** @param data a holder's details */
export function withClaims(data: Uint8Array, claims: readonly Claim[]): Uint8Array {
  if (claims.length === 0) return data;
  const details = JSON.parse(Buffer.from(data).toString()) as object;
  return Buffer.from(JSON.stringify({ ...details, holds: claims.slice(0, MOST_CLAIMS) }));
}

/** None where the node is another library's, or says nothing of what it holds. */
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
