import { MIN_QUIET } from './keys.js';
import { Random, shuffled } from './random.js';

/** Faults of the network between one worker and its servers, and of the worker itself. */
export const WORKER_FAULTS = [
  'cut',
  'stall',
  'deafen',
  'mute',
  'delay',
  'drop-reply',
  'expire',
  'block',
  'stop',
  'kill',
] as const;

export type ServerKind = 'embedded' | 'ensemble';

/** Faults of the servers, which concern all workers. */
export const SERVER_FAULTS: Readonly<Record<ServerKind, readonly string[]>> = {
  embedded: ['restart'],
  ensemble: [
    'kill-leader',
    'kill-follower',
    'pause-leader',
    'pause-follower',
    'restart-leader',
    'no-quorum',
  ],
};

/** A fault to inject. */
export interface PlannedFault {
  readonly kind: string;
  /** Undefined for a fault of the servers. */
  readonly worker?: string;
  /** Milliseconds. */
  readonly duration: number;
  /** Whether bytes that were held back are delivered in the end. */
  readonly delivers?: boolean;
  /** Milliseconds from the start of the round. */
  after: number;
}

export interface PlannedRound {
  readonly faults: PlannedFault[];
  /** Milliseconds without faults before the round. */
  readonly quiet: number;
}

/** Probabilities that a round has a fault of the servers, and that it concerns two workers. */
const SERVER_FAULT = 0.4;
const SECOND_WORKER = 0.5;
/** Durations in parts of the session timeout: every session survives a short one, and none a long one. */
const SHORT = [0.1, 0.45] as const;
const LONG = [1.1, 1.5] as const;

/**
 * Generates rounds of faults without end, the same ones for the same seed. Each kind occurs once before
 * any occurs again, in an order that is shuffled each time, so a run of some minutes has every kind.
 */
export function* schedule({
  seed,
  server,
  workers,
  sessionTimeout,
}: {
  readonly seed: number;
  readonly server: ServerKind;
  readonly workers: readonly string[];
  readonly sessionTimeout: number;
}): Generator<PlannedRound, never, void> {
  const random = new Random(seed);
  const workerKinds = shuffled<string>(WORKER_FAULTS, random);
  const serverKinds = shuffled(SERVER_FAULTS[server], random);
  const duration = () => {
    const [low, high] = random.next() < 0.5 ? SHORT : LONG;
    return Math.round(sessionTimeout * random.between(low, high));
  };
  for (;;) {
    const faults: PlannedFault[] = [];
    const targets = shuffled(workers, random);
    const count = random.next() < SECOND_WORKER ? 2 : 1;
    for (let index = 0; index < count; index++) {
      const fault = { kind: workerKinds.next().value, worker: targets.next().value };
      faults.push({ ...fault, duration: duration(), delivers: random.next() < 0.5, after: 0 });
    }
    if (random.next() < SERVER_FAULT) {
      faults.push({ kind: serverKinds.next().value, duration: duration(), after: 0 });
    }
    for (const fault of faults) fault.after = Math.round(random.between(0, sessionTimeout / 2));
    yield { faults, quiet: Math.round(MIN_QUIET * random.between(1, 2)) };
  }
}
