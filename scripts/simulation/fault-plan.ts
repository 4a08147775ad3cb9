import type { Fault, Random } from './types.js';
import type { Setting } from './setting.js';

/** Faults of one process or of its network. */
const PROCESS_FAULTS = [
  'pause',
  'block',
  'crash',
  'lose power',
  'shut down',
  'cut',
  'cut requests',
  'cut replies',
  'cut until the session is over',
  'reset',
  'refuse',
  'slow network',
  'lose create reply',
  'lose create reply and refuse',
  'late replies, then silence',
  'lose delete reply',
  'lose listing reply',
  'lose sync reply',
  'expire session',
  'delete node',
  'step clock forward',
  'step clock back',
] as const;

const SERVER_FAULTS = [
  'crash server',
  'unplug server',
  'pause server',
  'crash all servers',
] as const;

export type FaultKind = (typeof PROCESS_FAULTS)[number] | (typeof SERVER_FAULTS)[number];

/** Of the session timeout: what no session may end by, and what every session ends by. */
const SHORT = [0.05, 0.4] as const;
/** Ends the connection but not always the session. */
const MEDIUM = [0.4, 0.8] as const;
const LONG = [1.1, 1.6] as const;
/** The servers round the end of a session up, and a slow clock notices it late. */
const BEYOND_SESSION = [1.3, 1.6] as const;

/** How many faults a run has, at most. */
const MOST_FAULTS = 9;
/** How often a fault is one of the servers. */
const OF_SERVERS = 0.2;
/** Virtual milliseconds before the first fault. */
const FIRST_FAULT = 300;

type Range = readonly [number, number];

/** What goes wrong when, in the order of time. */
export function planFaults(setting: Setting, random: Random): (Fault & { kind: FaultKind })[] {
  const { faultsUntil, sessionTimeout, processes, servers } = setting;
  if (faultsUntil === 0) return [];
  const planned = Array.from({ length: random.whole(1, MOST_FAULTS) }, () => {
    const from = random.between(FIRST_FAULT, faultsUntil);
    const ofServer = random.chance(OF_SERVERS);
    const kind: FaultKind = ofServer ? random.pick(SERVER_FAULTS) : random.pick(PROCESS_FAULTS);
    const lengths =
      kind === 'cut until the session is over' ? [BEYOND_SESSION] : [SHORT, MEDIUM, LONG];
    const length = sessionTimeout * random.between(...random.pick<Range>(lengths));
    const target = ofServer ? `server ${random.whole(1, servers)}` : random.pick(processes).name;
    return { kind, target, from, until: Math.min(from + length, faultsUntil + sessionTimeout) };
  });
  return planned.sort((a, b) => a.from - b.from).map((fault, index) => ({ index, ...fault }));
}
