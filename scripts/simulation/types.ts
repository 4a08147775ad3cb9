/** A build of the library: the one under test. */
export interface Library {
  readonly nest: typeof import('nestjs-zookeeper');
  readonly recipes: typeof import('nestjs-zookeeper/recipes');
  readonly testing: typeof import('nestjs-zookeeper/testing');
}

export interface RunOptions {
  readonly seed: number;
  /** Indexes of the seed's faults that happen. Default: all of them. */
  readonly faults?: readonly number[];
  /** Whether the report has the acquires, for a timeline. Default false. */
  readonly timeline?: boolean;
}

/** A fault as it was planned from the seed. Times are virtual milliseconds. */
export interface Fault {
  /** Its place in the plan; `RunOptions.faults` names faults by it. */
  readonly index: number;
  readonly kind: string;
  /** The process or server that it strikes. */
  readonly target: string;
  readonly from: number;
  readonly until: number;
}

export interface Violation {
  /** The violated property, such as `two leases of one lock at a time`. */
  readonly property: string;
  readonly message: string;
  readonly at: number;
}

/** One acquire of a lease, from the request to its end. Times are virtual milliseconds. */
export interface Acquire {
  readonly process: string;
  readonly key: string;
  readonly mode: 'exclusive' | 'read' | 'write' | 'permit' | 'lead';
  readonly asked: number;
  /** Undefined where it was not granted. */
  readonly granted: number | undefined;
  readonly token: bigint | undefined;
  /** When it was released, lost or refused. */
  readonly ended: number;
  readonly outcome: 'released' | 'lost' | 'crashed' | 'busy' | 'timed out' | 'cancelled' | 'failed';
}

/** What one seed did. */
export interface Report {
  readonly seed: number;
  readonly digest: string;
  /** Virtual milliseconds. */
  readonly duration: number;
  readonly events: number;
  /** Grants that were checked. */
  readonly grants: number;
  readonly faults: readonly Fault[];
  readonly violations: readonly Violation[];
  /** Empty unless they were asked for. */
  readonly acquires: readonly Acquire[];
  /** Names of the processes, in the order in which they started. */
  readonly processes: readonly string[];
}

/** Runs one seed; rejects only where the simulator itself fails. */
export type RunSeed = (library: Library, options: RunOptions) => Promise<Report>;

/** The simulator's random numbers, as the world hands them out. */
export type Random = import('nestjs-zookeeper/testing').Random;
