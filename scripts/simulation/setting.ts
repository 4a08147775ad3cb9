import type { Random } from './types.js';

/** Milliseconds; the servers look for expired sessions that often. */
export const TICK_TIME = 250;
/** Virtual milliseconds after which the workload starts nothing new. */
export const WORK_UNTIL = 6_000;
/** How many permits the semaphores have. */
export const PERMITS = 3;
/** Milliseconds that a lock lingers at most, and that it is kept at least at most. */
export const LONGEST_LINGER = 800;
export const LONGEST_KEEP = 200;

/**
 * Ranges of the rate of a clock that drifts. A client takes its session for lost after three quarters of its timeout,
 * so the library is safe down to a rate of 0.75.
 */
const CLOCK_RATES: readonly (readonly [number, number])[] = [
  [0.77, 0.8],
  [0.8, 1.15],
];

/** What the seed decides before anything happens. */
export interface Setting {
  readonly processes: readonly ProcessSetting[];
  readonly servers: number;
  /** Milliseconds. */
  readonly sessionTimeout: number;
  /** Bounds of the time that a message takes each way, and by which a server trails the others. */
  readonly latency: readonly [number, number];
  readonly lag: readonly [number, number];
  /** Ends the last fault; without faults 0. */
  readonly faultsUntil: number;
  readonly policy: 'session' | 'standard';
  /** Probability that an acquire asks for each of these. */
  readonly lingers: number;
  readonly strict: number;
  /** What each process does: a part of all jobs, so that the runs differ in what meets what. */
  readonly jobs: readonly JobName[];
}

/** Jobs by the names of their locks, or by what they do. */
const JOBS = [
  'till',
  'vault',
  'own',
  'rare',
  'door',
  'pages',
  'seats',
  'downgrade',
  'multi',
  'nested',
  'reenter',
  'enter',
  'hot',
  'hot permits',
  'hot pages',
  'look',
  'pool',
] as const;

export type JobName = (typeof JOBS)[number];

interface ProcessSetting {
  readonly name: string;
  readonly clockRate: number;
  /** Runs a Nest application instead of recipes. */
  readonly nest: boolean;
}

export function settingOf(random: Random): Setting {
  const servers = random.pick([1, 3]);
  const nest = random.chance(0.25);
  const count = nest ? 2 : random.whole(2, 4);
  const drifts = random.chance(0.4);
  const slow = random.chance(0.2);
  return {
    processes: Array.from({ length: count }, (_, index) => ({
      name: `p${index + 1}`,
      clockRate: drifts ? random.between(...random.pick(CLOCK_RATES)) : 1,
      nest,
    })),
    servers,
    sessionTimeout: random.pick([1_000, 1_500, 2_000]),
    latency: slow ? [5, 50] : random.pick([[0.1, 1], [0.2, 5] as [number, number]]),
    lag: servers > 1 ? random.pick([[0, 1], [0, 20], [0, 400] as [number, number]]) : [0, 0],
    faultsUntil: random.chance(0.2) ? 0 : 3_500,
    policy: random.chance(0.15) ? 'standard' : 'session',
    lingers: random.pick([0, 0.2, 0.8]),
    strict: random.pick([0, 0.2, 1]),
    jobs: JOBS.filter(() => random.chance(0.5)),
  };
}

/** Milliseconds after the end of a fault within which everything works again. */
export function recoveryTime({ sessionTimeout, latency, lag }: Setting): number {
  return (sessionTimeout * 4) / 3 + 2 * TICK_TIME + 20 * latency[1] + lag[1];
}

/** Milliseconds within which a change of a znode is known to all who watch it. */
export function noticeTime({ latency, lag }: Setting): number {
  return 2 * latency[1] + lag[1] + 5;
}
