import { setMaxListeners } from 'node:events';
import type { TransactionOperation, TransactionResults } from '../client/index.js';
import { onAbort } from '../client/sleep.js';
import { LeaseLostError, NotLeaderError } from './errors.js';
import type { Lease } from './lease.js';

/**
 * One participant's time as the leader of an election.
 *
 * @publicApi
 */
export interface Term {
  /** The key of the election; its path if it has no key. */
  readonly election: string;
  /** The parent znode of the election. */
  readonly path: string;
  /** The id of the leader. */
  readonly participantId: string;
  /**
   * A number that rises from term to term of an election, over processes, sessions and restarts. Pass it to the stores
   * that the leader writes to, and let them refuse a lower number than they have seen. Then a leader that was paused
   * beyond the end of its session can do no harm.
   */
  readonly fencingToken: bigint;
  /** When the term began, by the clock of this machine. */
  readonly leaderSince: Date;
  /**
   * Aborts with a {@link NotLeaderError} when the leadership is lost or given up. After a pause of the process it behaves
   * as {@link Lease.signal}.
   */
  readonly signal: AbortSignal;
  /** True until the leadership is lost or given up. */
  readonly active: boolean;
  /**
   * Carries out a ZooKeeper transaction, if this participant leads when it is applied; see {@link Lease.transaction}.
   * Rejects with a {@link NotLeaderError} if the leadership is lost or given up: then nothing was changed.
   */
  transaction<const T extends readonly TransactionOperation[]>(
    operations: T,
  ): Promise<TransactionResults<T>>;
}

/** The term of a candidate that holds the lock of its election. */
export class LeaseTerm implements Term {
  readonly leaderSince = new Date();
  private readonly ending = new AbortController();

  constructor(
    private readonly lease: Lease,
    readonly participantId: string,
  ) {
    // All work of a leader may add listeners.
    setMaxListeners(0, this.signal);
    const { signal } = lease;
    const lose = () => {
      const lost = signal.reason as Error;
      this.end(`lost: ${(lost.cause as Error).message}`, lost);
    };
    onAbort(signal, lose);
  }

  get election(): string {
    return this.lease.key;
  }

  get path(): string {
    return this.lease.path;
  }

  get fencingToken(): bigint {
    return this.lease.fencingToken;
  }

  get signal(): AbortSignal {
    // Reads the clock, as the signal of a lease does, so a loss aborts the signal here.
    void this.lease.signal;
    return this.ending.signal;
  }

  get active(): boolean {
    return this.lease.held && !this.ending.signal.aborted;
  }

  async transaction<const T extends readonly TransactionOperation[]>(
    operations: T,
  ): Promise<TransactionResults<T>> {
    if (!this.active) throw this.signal.reason;
    try {
      return await this.lease.transaction(operations);
    } catch (error) {
      throw error instanceof LeaseLostError ? this.signal.reason : error;
    }
  }

  toJSON(): object {
    const { election, path, active, fencingToken } = this;
    return { election, path, active, fencingToken: String(fencingToken) };
  }

  /** Ends the term. The lock of the election is held until it is released. */
  end(how: string, cause?: Error): void {
    if (this.ending.signal.aborted) return;
    const message = `the leadership of election ${JSON.stringify(this.election)} was ${how}`;
    this.ending.abort(new NotLeaderError(message, { key: this.election, cause }));
  }

  /** Ends the term and releases the lock, as {@link Lease.release} does. */
  release(): Promise<void> {
    this.end('given up');
    return this.lease.release();
  }
}
