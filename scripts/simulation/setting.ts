import type { Random, EmbeddedServerKind } from './types.js';

/** The interval in milliseconds at which the servers expire sessions. */
export const TICK_TIME = 250;
/**
 * The earliest time, in virtual milliseconds, at which the workload stops to start operations. After late faults it
 * stops later.
 */
export const WORK_UNTIL = 6_000;
/**
 * The ticks for which an isolated server answers reads: longer than the longest session timeout, so that the other
 * servers expire the sessions of its clients meanwhile.
 */
export const SYNC_LIMIT = 10;
/** The number of permits of each semaphore. */
export const PERMITS = 3;
/** The greatest value of the option `linger` in the workload, in milliseconds. */
export const MAX_LINGER = 800;
/** The greatest value of the option `holdAtLeast` in the workload, in milliseconds. */
export const MAX_HOLD_AT_LEAST = 200;

/**
 * The ranges from which the rate of a drifting clock is drawn. A client declares its session lost after three
 * quarters of the session timeout, so the library is safe down to a clock rate of 0.75.
 */
const CLOCK_RATES: readonly (readonly [number, number])[] = [
  [0.77, 0.8],
  [0.8, 1.15],
];

/** The lags of the servers of an ensemble, as in `Setting.lag`. */
const LAGS: readonly (readonly [number, number])[] = [
  [0, 1],
  [0, 20],
  [0, 200],
  [0, 400],
];

/** The parameters of a run, which are drawn from the seed before the run starts. */
export interface Setting {
  /** The server whose behaviour the servers copy. Default: ZooKeeper. */
  readonly server?: EmbeddedServerKind | undefined;
  readonly processes: readonly ProcessSetting[];
  readonly servers: number;
  /** Milliseconds. */
  readonly sessionTimeout: number;
  /** The minimum and maximum latency of a message in each direction, in milliseconds. */
  readonly latency: readonly [number, number];
  /** The minimum and maximum delay in milliseconds after which a server applies the writes of other servers. */
  readonly lag: readonly [number, number];
  /** The latest start of a fault in virtual milliseconds; 0 for a run without faults. */
  readonly faultsUntil: number;
  readonly policy: 'session' | 'standard';
  /** How often a client tries again after a failure, every 50 ms. Default 40, which takes longer than any session lasts. */
  readonly maxRetries?: number | undefined;
  /** The probability that an acquire has the option `linger`. */
  readonly lingerProbability: number;
  /** The probability that an acquire has the option `fairness: 'strict'`. */
  readonly strictProbability: number;
  /** The jobs that each process runs: a random subset of all jobs, so that runs combine the jobs differently. */
  readonly jobs: readonly JobName[];
}

/** Each job is a loop of operations on a lock; see `Jobs` for the operations. */
const JOBS = [
  'mutex',
  'long hold',
  'uncontended mutex',
  'rarely used mutex',
  'non-reentrant mutex',
  'read/write lock',
  'semaphore',
  'downgrade',
  'multi-lock',
  'nested locks',
  're-entry',
  'late use of an entry',
  'burst on a mutex',
  'burst on a semaphore',
  'burst on a read lock',
  'participants and revocation',
  'raised permits',
] as const;

export type JobName = (typeof JOBS)[number];

interface ProcessSetting {
  readonly name: string;
  readonly clockRate: number;
  /** Whether the process runs a Nest application instead of recipes. */
  readonly nest: boolean;
  /**
   * Whether the process does nothing but lead an election and read. It writes nothing while it leads, so that an isolated
   * server answers all its requests, except for those of its keep-alive.
   */
  readonly onlyReads: boolean;
}

/** Draws the parameters of a run from random numbers of the seed. */
export function drawSetting(random: Random): Setting {
  const servers = random.pick([1, 3]);
  const nest = random.chance(0.25);
  const count = nest ? 2 : random.whole(2, 4);
  const drifts = random.chance(0.4);
  const slow = random.chance(0.2);
  const reads = !nest && servers > 1 && random.chance(0.4);
  return {
    processes: Array.from({ length: count }, (_, index) => ({
      name: `p${index + 1}`,
      clockRate: drifts ? random.between(...random.pick(CLOCK_RATES)) : 1,
      nest,
      onlyReads: reads && index === 0,
    })),
    servers,
    sessionTimeout: random.pick([1_000, 1_500, 2_000]),
    latency: slow ? [5, 50] : random.pick([[0.1, 1], [0.2, 5] as [number, number]]),
    lag: servers > 1 ? random.pick(LAGS) : [0, 0],
    faultsUntil: random.chance(0.2) ? 0 : 3_500,
    policy: random.chance(0.15) ? 'standard' : 'session',
    lingerProbability: random.pick([0, 0.2, 0.8]),
    strictProbability: random.pick([0, 0.2, 1]),
    jobs: JOBS.filter(() => random.chance(0.5)),
  };
}

/** Returns a setting in which all processes run the program of a workload, and none a Nest application. */
export function withoutNest(setting: Setting): Setting {
  const processes = setting.processes.map((each) => ({ ...each, nest: false, onlyReads: false }));
  return { ...setting, processes };
}

/** Returns whether a client can remove a watch. Otherwise watches that are no longer needed remain until the session ends. */
export function canRemoveWatches({ server = 'zookeeper' }: Setting): boolean {
  return server === 'zookeeper';
}

/** Returns whether a client can close a session over a new connection. ClickHouse Keeper resumes no session. */
export function resumesSessions({ server }: Setting): boolean {
  return server !== 'clickhouse-keeper';
}

/** Returns the milliseconds after the end of a fault within which all clients work normally again. */
export function recoveryTime({ sessionTimeout, latency, lag }: Setting): number {
  return (sessionTimeout * 4) / 3 + 2 * TICK_TIME + 20 * latency[1] + lag[1];
}

/** Returns the milliseconds within which a connected client gets the replies to some requests that follow each other. */
export function replyTime({ latency, lag }: Setting): number {
  // The first request for a permit creates the directories, and takes more than ten round trips.
  return 30 * latency[1] + 2 * lag[1] + 50;
}

/** Returns the milliseconds within which all watchers of a znode are notified of a change. */
export function notificationTime({ latency, lag }: Setting): number {
  return 2 * latency[1] + lag[1] + 5;
}
