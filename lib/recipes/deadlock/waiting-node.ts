import { type Session, NodeError } from '../../client/index.js';
import { REVOKE_MESSAGE } from '../node-watch.js';
import { type Claim, withClaims } from './claims.js';

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
