import { setMaxListeners } from 'node:events';
import { onAbort, type TransactionOperation, type TransactionResults } from '../../client/index.js';
import type { Lease } from '../../kernel/index.js';
import { PartitionReleasedError } from './errors.js';

/**
 * A partition that this process owns. No other process owns it at the same time.
 *
 * @publicApi
 */
export interface Partition {
  /** From 0 to the number of partitions minus 1. */
  readonly index: number;
  /**
   * A number that rises from one owner of this partition to the next, over processes, sessions and restarts. Pass it to
   * the stores that the work on this partition writes to, and let them refuse a lower number than they have seen.
   */
  readonly fencingToken: bigint;
  /**
   * Aborts when the partition is assigned to another member or this member is closed, with a
   * {@link PartitionReleasedError}, and when the lock of the partition is lost, with a `LeaseLostError`. After a
   * pause of the process it behaves as {@link Lease.signal}.
   */
  readonly signal: AbortSignal;
  /** True until the signal aborts. Reads the clock of the session. */
  readonly owned: boolean;
  /**
   * Carries out a ZooKeeper transaction, if this process holds the lock of the partition when it is applied; see
   * {@link Lease.transaction}. Also possible after the signal has aborted with a PartitionReleasedError, until the handler
   * settles: to save how far the work has got. Rejects with a `LeaseLostError` if the lock is lost.
   */
  transaction<const T extends readonly TransactionOperation[]>(
    operations: T,
  ): Promise<TransactionResults<T>>;
}

/** A partition whose lock this process holds. */
export class OwnedPartition implements Partition {
  private readonly ending = new AbortController();

  constructor(
    readonly index: number,
    private readonly lease: Lease,
  ) {
    // All work on a partition may add listeners.
    setMaxListeners(0, this.ending.signal);
    const { signal } = lease;
    onAbort(signal, () => this.ending.abort(signal.reason));
  }

  get fencingToken(): bigint {
    return this.lease.fencingToken;
  }

  get signal(): AbortSignal {
    // Reads the clock, as the signal of a lease does, so a loss aborts the signal here.
    void this.lease.signal;
    return this.ending.signal;
  }

  get owned(): boolean {
    return this.lease.held && !this.ending.signal.aborted;
  }

  /** An arrow function, so that a handler can destructure the partition. */
  readonly transaction = <const T extends readonly TransactionOperation[]>(
    operations: T,
  ): Promise<TransactionResults<T>> => this.lease.transaction(operations);

  toJSON(): object {
    const { index, owned, fencingToken } = this;
    return { index, owned, fencingToken: String(fencingToken) };
  }

  /**
   * Aborts the signal, unless the lock is lost: then the signal aborts with that reason. The lock is held until the handler
   * has settled.
   */
  abort(reason: PartitionReleasedError): void {
    if (this.lease.held) this.ending.abort(reason);
  }
}
