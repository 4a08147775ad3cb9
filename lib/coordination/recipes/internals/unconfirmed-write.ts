import { ConnectionError } from '../../../client/index.js';

/** The state of a counter after a read or a write. */
export interface CounterSnapshot {
  readonly value: bigint;
  readonly version: number;
  /** The transaction that created the znode. A znode that is created later at the same path has another one. */
  readonly czxid: number;
}

/** A write whose reply was lost: it may have been applied, or may still be applied. */
export class UnconfirmedWrite {
  constructor(
    private readonly path: string,
    private readonly base: CounterSnapshot,
    private readonly value: bigint,
    /** The session that sent it. */
    private readonly session: string | undefined,
    private readonly cause: ConnectionError,
  ) {}

  /**
   * Compares the counter, which was read after a `sync`, with the write. Exactly one write changes a znode from one version
   * to the next.
   *
   * @param now the counter
   * @param session the current session
   * @returns 'notApplied' if the write was not applied and never will be; 'open' if it may be repeated with the same
   *   version, because at most one of the two writes is applied then
   * @throws ConnectionError with `maybeApplied: true` if neither is known
   */
  resolve(now: CounterSnapshot | undefined, session: string | undefined): 'open' | 'notApplied' {
    const { base, value } = this;
    if (now?.czxid !== base.czxid) throw this.error;
    if (now.version === base.version) {
      // After a reconnection of the same session, the servers drop the requests of its old connection.
      return session === this.session ? 'notApplied' : 'open';
    }
    if (now.version === base.version + 1 && now.value !== value) return 'notApplied';
    throw this.error;
  }

  get error(): ConnectionError {
    const { path: key, cause } = this;
    const message = `counter ${key}: the reply to a write was lost, and the counter does not show whether it was applied`;
    return new ConnectionError(`${message}: ${cause.message}`, { maybeApplied: true, key, cause });
  }
}
