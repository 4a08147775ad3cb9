import { setMaxListeners } from 'node:events';
import { NotLeaderError } from './errors.js';
import type { Lease } from './lease.js';

/**
 * One participant's time as the leader of an election.
 *
 * @publicApi
 */
export interface Term {
  /** What the election was asked for by; the path where it was asked for by path. */
  readonly election: string;
  /** The parent znode of the election. */
  readonly path: string;
  /** The leader's, by which the others know it. */
  readonly participantId: string;
  /**
   * Rises strictly from term to term of an election, over processes, sessions and restarts. Hand it to
   * the stores that the leader writes to, and let them refuse a lower one than they have seen: then a
   * leader that was paused past its session can do no harm.
   */
  readonly fencingToken: bigint;
  /** By this machine's clock. */
  readonly leaderSince: Date;
  /**
   * Aborts, with a {@link NotLeaderError} as its reason, the moment the leadership is lost or given up.
   * After a pause as {@link Lease.signal}.
   */
  readonly signal: AbortSignal;
  /** True until the leadership is lost or given up. */
  readonly active: boolean;
}

/** The term that the lease on an election's first place gives. */
export class LeaseTerm implements Term {
  readonly leaderSince = new Date();
  private readonly ending = new AbortController();

  constructor(
    private readonly lease: Lease,
    readonly participantId: string,
  ) {
    // All that a leader does may listen to it.
    setMaxListeners(0, this.signal);
    const { signal } = lease;
    const lose = () => {
      const lost = signal.reason as Error;
      this.end(`lost: ${(lost.cause as Error).message}`, lost);
    };
    if (signal.aborted) lose();
    else signal.addEventListener('abort', lose, { once: true });
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
    // As a lease's: it aborts this one, where it is lost.
    void this.lease.held;
    return this.ending.signal;
  }

  get active(): boolean {
    return this.lease.held && !this.ending.signal.aborted;
  }

  /** For loggers, as a lease's. */
  toJSON(): object {
    const { election, path, active, fencingToken } = this;
    return { election, path, active, fencingToken: String(fencingToken) };
  }

  /** From here on nobody may act as the leader, though the place is taken until it is given back. */
  end(how: string, cause?: Error): void {
    if (this.ending.signal.aborted) return;
    const message = `the leadership of election ${JSON.stringify(this.election)} was ${how}`;
    this.ending.abort(new NotLeaderError(message, { key: this.election, cause }));
  }

  /** As {@link Lease.release}. */
  giveBack(): Promise<void> {
    this.end('given up');
    return this.lease.release();
  }
}
