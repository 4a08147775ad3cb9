import type { EmbeddedServerKind } from '../simulation/types.js';
import type { Setting } from '../simulation/setting.js';

/** Milliseconds. Four ticks of the servers, so that few keep-alives separate a fault from its consequences. */
export const SESSION_TIMEOUT = 1_000;

/** The names of the processes of each scenario. */
export const PROCESSES = ['a', 'b'] as const;

/**
 * Returns the parameters of a scenario.
 *
 * @param clockRate the rate of the clock of the process a
 */
export function settingOf(servers: number, server: EmbeddedServerKind, clockRate: number): Setting {
  return {
    server,
    servers,
    processes: PROCESSES.map((name) => ({
      name,
      clockRate: name === 'a' ? clockRate : 1,
      ...{ nest: false, onlyReads: false },
    })),
    sessionTimeout: SESSION_TIMEOUT,
    latency: [0.4, 0.6],
    lag: servers > 1 ? [0.1, 2] : [0, 0],
    faultsUntil: 0,
    policy: 'session',
    lingerProbability: 0,
    strictProbability: 0,
    jobs: [],
  };
}
