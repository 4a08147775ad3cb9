import type { Fault, Random } from './types.js';
import type { Setting } from './setting.js';

/** Faults of one process, its session or its network. */
const PROCESS_FAULTS = [
  'pause',
  'block',
  'sleep',
  'sleep of a holder',
  'crash',
  'crash silently',
  'shut down',
  'cut',
  'cut requests',
  'cut replies',
  'reset',
  'refuse connections',
  'slow network',
  'lose create reply',
  'lose create reply and refuse connections',
  'pause, then cut requests',
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
  'crash server silently',
  'pause server',
  'crash all servers',
] as const;

/** Faults of one server of an ensemble. */
const ENSEMBLE_FAULTS = [...SERVER_FAULTS, 'isolate server'] as const;

type ProcessFault = (typeof PROCESS_FAULTS)[number];

export type FaultKind = ProcessFault | (typeof ENSEMBLE_FAULTS)[number];

export interface PlannedFault extends Fault {
  readonly kind: FaultKind;
}

/** The minimum and maximum length of a fault, as fractions of the session timeout. */
type LengthRange = readonly [number, number];
/** No session ends. */
const SHORT: LengthRange = [0.05, 0.4];
/** The connection is lost; the session may end. */
const MEDIUM: LengthRange = [0.4, 0.8];
/** Most sessions end. */
const LONG: LengthRange = [1.1, 1.6];
/**
 * Every session ends, although servers expire sessions at whole ticks and a client with a slow clock notices it late.
 */
const BEYOND_SESSION: LengthRange = [1.3, 1.6];
const ALL_LENGTHS: readonly LengthRange[] = [SHORT, MEDIUM, LONG];

/** The greatest number of faults in a run. */
const MAX_FAULTS = 9;
/** The probability that a fault is a fault of a server. */
const SERVER_FAULT_PROBABILITY = 0.2;
/** The minimum lag, in milliseconds, at which a server often lags behind for longer than a client needs to reconnect. */
const LONG_LAG = 100;
/** The maximum clock rate at which a client notices late that its session has expired. */
const SLOW_CLOCK = 0.8;
/** The probability that a fault of a process is one of those that suit the setting. */
const SUITABLE_FAULT_PROBABILITY = 0.5;
/** The earliest start of a fault in virtual milliseconds. */
const EARLIEST_FAULT = 300;

/** Draws the faults of a run from random numbers of the seed. Returns them in the order of their start times. */
export function planFaults(setting: Setting, random: Random): PlannedFault[] {
  const { faultsUntil, sessionTimeout, processes, servers } = setting;
  if (faultsUntil === 0) return [];
  const suitable = suitableFaults(setting);
  const processNames = processes.map(({ name }) => name);
  const serverNames = Array.from({ length: servers }, (_, index) => `server ${index + 1}`);
  const serverFaults = servers > 1 ? ENSEMBLE_FAULTS : SERVER_FAULTS;
  const planned = Array.from({ length: random.whole(1, MAX_FAULTS) }, () => {
    const from = random.between(EARLIEST_FAULT, faultsUntil);
    const isServerFault = random.chance(SERVER_FAULT_PROBABILITY);
    const isSuitable = suitable.length > 0 && random.chance(SUITABLE_FAULT_PROBABILITY);
    const choice: SuitableFault = isServerFault
      ? { kind: random.pick(serverFaults), targets: serverNames }
      : isSuitable
        ? random.pick(suitable)
        : { kind: random.pick(PROCESS_FAULTS), targets: processNames };
    const { kind, targets, lengths = ALL_LENGTHS } = choice;
    const length = sessionTimeout * random.between(...random.pick(lengths));
    const target = random.pick(targets);
    return { kind, target, from, until: Math.min(from + length, faultsUntil + sessionTimeout) };
  });
  return planned.sort((a, b) => a.from - b.from).map((fault, index) => ({ index, ...fault }));
}

/** A fault that shows some bugs only in such a setting, where it would be too rare otherwise. */
interface SuitableFault {
  readonly kind: FaultKind;
  readonly targets: readonly string[];
  /** Default: all lengths. */
  readonly lengths?: readonly LengthRange[];
}

function suitableFaults({ lag, processes, jobs }: Setting): SuitableFault[] {
  const targets = processes.map(({ name }) => name);
  if (processes.some(({ nest }) => nest)) return [{ kind: 'shut down', targets }];
  const lengths = [BEYOND_SESSION];
  const readers = processes.filter(({ onlyReads }) => onlyReads);
  if (readers.length > 0) {
    const serversOfReaders = readers.map(({ name }) => `server of ${name}`);
    return [{ kind: 'isolate server', targets: serversOfReaders, lengths }];
  }
  const faults: SuitableFault[] = [
    { kind: 'pause', targets, lengths },
    { kind: 'pause, then cut requests', targets, lengths },
  ];
  // The client reconnects to a server that has perhaps not applied the create. Most of the time that server refuses the
  // client, because the client has seen later writes.
  if (lag[1] >= LONG_LAG) faults.push({ kind: 'lose create reply', targets });
  const slow = processes.filter(({ clockRate }) => clockRate <= SLOW_CLOCK);
  if (slow.length > 0) faults.push({ kind: 'cut', targets: slow.map(({ name }) => name), lengths });
  if (jobs.includes('long hold')) faults.push({ kind: 'delete node', targets });
  if (jobs.includes('burst on a mutex'))
    faults.push({ kind: 'sleep of a holder', targets, lengths });
  return faults;
}
