import { type Session, NodeError } from '../../../client/index.js';
import { REVOKE_MESSAGE } from '../node-watch.js';

/**
 * Our node in a queue, as long as others stand before it: it may say what those who wait by it hold.
 * Written by version, so that a request for revocation stays.
 */
export class WaitingNode {
  /** It waits no longer: from then on its data is its holder's. */
  over = false;
  /** The data, as it was written last. */
  said: Uint8Array;
  version = 0;
  private wanted: Uint8Array;
  private writing: Promise<void> | undefined;
  private unsure = false;

  constructor(
    readonly session: Session,
    readonly path: string,
    private readonly data: Uint8Array,
  ) {
    this.said = this.wanted = data;
  }

  /** Resolves when nothing is being written; undefined where that is so. */
  get busy(): Promise<void> | undefined {
    return this.writing;
  }

  /** Never rejects: what could not be said is said again with the next call. */
  claim(claims: readonly Claim[]): Promise<void> {
    if (this.over) return Promise.resolve();
    this.wanted = withClaims(this.data, claims);
    this.writing ??= this.write().finally(() => (this.writing = undefined));
    return this.writing;
  }

  private async write(): Promise<void> {
    try {
      while (!this.over && (this.unsure || !same(this.said, this.wanted))) {
        if (this.unsure) await this.look();
        const { wanted } = this;
        this.unsure = true;
        ({ version: this.version } = await this.session.set(this.path, wanted, this.version));
        this.unsure = false;
        this.said = wanted;
      }
    } catch (error) {
      // Somebody else wrote it: it says nothing more.
      if (error instanceof NodeError) this.over = true;
    }
  }

  /** The answer to the last write was lost. */
  private async look(): Promise<void> {
    const { data, stat } = await this.session.get(this.path);
    if (data.equals(REVOKE_MESSAGE)) this.over = true;
    else this.version = stat.version;
  }
}

function same(a: Uint8Array, b: Uint8Array): boolean {
  return a === b || Buffer.compare(a, b) === 0;
}

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
