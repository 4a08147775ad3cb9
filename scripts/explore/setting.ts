import type { EmbeddedServerKind } from '../simulation/types.js';
import type { Setting } from '../simulation/setting.js';

/** Milliseconds. Four ticks of the servers, so that few keep-alives separate a fault from its consequences. */
export const SESSION_TIMEOUT = 1_000;

/** The names of the processes of a scenario that does not name others. */
export const PROCESSES: readonly string[] = ['a', 'b'];

/** What a scenario changes in the parameters of its runs. */
export interface ScenarioSetting {
  /** The names of the processes. Default: {@link PROCESSES}. */
  readonly processes?: readonly string[];
  /** Default 1. */
  readonly servers?: number;
  /** The rate of the clock of the process a. Default 1. */
  readonly clockRate?: number;
  /** As in {@link Setting}. Default 0.4 to 0.6. */
  readonly latency?: Setting['latency'];
  /** Default `'session'`. */
  readonly policy?: Setting['policy'];
  /** As in {@link Setting}. */
  readonly maxRetries?: Setting['maxRetries'];
  /** Whether the processes run Nest applications. Default false. */
  readonly nest?: boolean;
}

/** Returns the parameters of the runs of a scenario. */
export function settingOf(
  {
    processes = PROCESSES,
    servers = 1,
    clockRate = 1,
    latency = [0.4, 0.6],
    policy = 'session',
    maxRetries,
    nest = false,
  }: ScenarioSetting,
  server: EmbeddedServerKind,
): Setting {
  return {
    server,
    servers,
    processes: processes.map((name) => ({
      name,
      clockRate: name === 'a' ? clockRate : 1,
      ...{ nest, onlyReads: false },
    })),
    sessionTimeout: SESSION_TIMEOUT,
    latency,
    // A client often reconnects before the next server has applied the last writes.
    lag: servers > 1 ? [0, 40] : [0, 0],
    faultsUntil: 0,
    ...{ policy, maxRetries },
    lingerProbability: 0,
    strictProbability: 0,
    jobs: [],
  };
}
