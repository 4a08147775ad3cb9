import { ConnectionError } from '../../../client/index.js';

/** The content of a counter that was read or written. */
export interface Known {
  readonly value: bigint;
  readonly version: number;
  /** The transaction that created the znode. It tells the znode from a later one at the same path. */
  readonly czxid: number;
}

/** A write whose reply was lost: it may have been applied, or may still be applied. */
export class UnconfirmedWrite {
  constructor(
    private readonly path: string,
    private readonly base: Known,
    private readonly value: bigint,
    /** The session that sent it. */
    private readonly session: string | undefined,
    private readonly cause: ConnectionError,
  ) {}

  /**
   * Decides by what a later `sync` and read have found. Exactly one write changes a znode from a version to the next one.
   * Returns false if the write was not applied and never will be. Returns true if the write may be repeated, with the same
   * version: then at most one of the two is applied.
   *
   * @throws ConnectionError with `maybeApplied: true` if neither is known
   */
  isOpen(now: Known | undefined, session: string | undefined): boolean {
    const { base, value } = this;
    if (now?.czxid !== base.czxid) throw this.error;
    // After a reconnection of the same session, the servers drop the requests of its old connection.
    if (now.version === base.version) return session !== this.session;
    if (now.version === base.version + 1 && now.value !== value) return false;
    throw this.error;
  }

  get error(): ConnectionError {
    const { path: key, cause } = this;
    const message = `counter ${key}: the reply to a write was lost, and the counter does not show whether it was applied`;
    return new ConnectionError(`${message}: ${cause.message}`, { maybeApplied: true, key, cause });
  }
}
