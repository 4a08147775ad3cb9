/**
 * What a timeline shows. Its data comes from a sale of the live page, from a chaos run or from a simulation. All
 * times are milliseconds. A lane is referred to by its index.
 */
export interface TimelineData {
  readonly from: number;
  /** The end of the run, or the present time if the run has not ended. */
  readonly until: number;
  /** Names of instances, processes or servers. */
  readonly lanes: readonly string[];
  readonly leases: readonly TimelineLease[];
  readonly bands: readonly TimelineBand[];
  /** Pairs of indexes of leases: the lease that ended, and the lease that was granted next in another lane. */
  readonly handOvers: readonly (readonly [ended: number, granted: number])[];
  readonly writes: readonly TimelineWrite[];
  readonly violations: readonly TimelineViolation[];
}

/** One acquire. It waits from `requested` to `granted`, and holds from `granted` to `ended`. */
export interface TimelineLease {
  readonly lane: number;
  readonly key: string;
  /** For example `exclusive`. */
  readonly mode?: string;
  /** Undefined if the time of the request is unknown. */
  readonly requested?: number;
  /** Undefined while the acquire waits, and if it was not granted. */
  readonly granted?: number;
  /** Undefined while the acquire waits or holds. */
  readonly ended?: number;
  /** Undefined while the acquire waits or holds. Other values than `released` are drawn as an interruption. */
  readonly outcome?: string;
  /**
   * When the ensemble freed the lock of a holder that did not release it. Later than `ended` for a holder that died, and
   * earlier for one that learned too late that its lease was lost.
   */
  readonly lockFreedAt?: number;
  readonly token?: string;
  /** Rank of the token: 1 for the first grant. */
  readonly rank?: number;
}

/** Kinds of bands that have a colour of their own. All other kinds are drawn as a fault. */
export type BandKind = 'paused' | 'cut' | 'suspended' | 'lost' | 'dead' | 'unconfirmed';

/** A period in which a lane was not in its normal state. */
export interface TimelineBand {
  readonly lane: number;
  readonly kind: BandKind | 'fault';
  /** Replaces the name of the kind. */
  readonly label?: string;
  readonly from: number;
  /** Undefined while the state lasts. */
  readonly until?: number;
}

/** A write to the protected resource, from the read before it. */
export interface TimelineWrite {
  /** Unique among the writes. */
  readonly id: string;
  readonly lane: number;
  readonly read: number;
  /** Undefined while the write has not happened. */
  readonly written?: number;
  /** `overwrote`: another write happened since the read. `refused`: the fence refused the write. */
  readonly outcome?: 'written' | 'overwrote' | 'refused';
  readonly value?: number;
  readonly token?: string;
  readonly rank?: number;
}

export interface TimelineViolation {
  readonly at: number;
  readonly property: string;
  readonly message: string;
}
