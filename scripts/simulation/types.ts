/** The modules of the build of the library that is tested. */
export interface Library {
  readonly nest: typeof import('nestjs-zookeeper');
  readonly recipes: typeof import('nestjs-zookeeper/recipes');
  readonly coordination: typeof import('nestjs-zookeeper/coordination');
  readonly testing: typeof import('nestjs-zookeeper/testing');
  readonly schedule: typeof import('nestjs-zookeeper/schedule');
}

/** What the processes of a run do. */
export type WorkloadName =
  'locks' | 'partitions' | 'queue' | 'guarded-writes' | 'counter' | 'cache' | 'barrier' | 'cron';

/** The server whose behaviour the simulated servers copy. */
export type EmbeddedServerKind = import('nestjs-zookeeper/embedded').EmbeddedServerKind;

export interface RunOptions {
  readonly workload: WorkloadName;
  /** Default: ZooKeeper. */
  readonly server?: EmbeddedServerKind | undefined;
  readonly seed: number;
  /** The indexes of the faults to inject. Default: all faults of the seed. */
  readonly faults?: readonly number[];
  /** Whether the report contains the acquires, which a timeline shows. Default false. */
  readonly timeline?: boolean;
}

/** A fault of a seed. Times are virtual milliseconds. */
export interface Fault {
  /** Its position in the faults of the seed. `RunOptions.faults` selects faults by their indexes. */
  readonly index: number;
  readonly kind: string;
  /** The name of the process, or a server: `server 1`, or `server of p1`, to which the process p1 is connected. */
  readonly target: string;
  readonly from: number;
  readonly until: number;
}

export interface Violation {
  /** The violated property, such as `no two leases overlap`. */
  readonly property: string;
  readonly message: string;
  /** Virtual milliseconds from the start of the run. */
  readonly at: number;
}

/** One acquire of a lease, from the call to its end. Times are virtual milliseconds. */
export interface Acquire {
  readonly process: string;
  readonly key: string;
  readonly mode: 'exclusive' | 'read' | 'write' | 'permit' | 'lead';
  /** When the call was made. */
  readonly asked: number;
  /** When it was granted; undefined if it was not. */
  readonly granted: number | undefined;
  readonly token: bigint | undefined;
  /** When the lease was released or lost, or the call failed. */
  readonly ended: number;
  readonly outcome: 'released' | 'lost' | 'crashed' | 'busy' | 'timed out' | 'cancelled' | 'failed';
}

/** The result of one seed. */
export interface Report {
  readonly seed: number;
  readonly digest: string;
  /** Virtual milliseconds. */
  readonly duration: number;
  readonly events: number;
  /** The number of grants that were checked, or of operations in a workload without leases. */
  readonly grants: number;
  readonly faults: readonly Fault[];
  readonly violations: readonly Violation[];
  /** Empty unless `RunOptions.timeline` is true. */
  readonly acquires: readonly Acquire[];
  /** Names of the processes, in the order in which they started. */
  readonly processes: readonly string[];
}

/** Runs one seed. Rejects only if the simulator itself fails. */
export type RunSeed = (library: Library, options: RunOptions) => Promise<Report>;

export type Random = import('nestjs-zookeeper/testing').Random;
