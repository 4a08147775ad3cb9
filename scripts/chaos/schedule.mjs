import { LEAST_QUIET } from './keys.mjs';
import { Random } from './random.mjs';

/** Faults between one worker and its servers, or of the worker itself. */
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
];

/** Faults of the servers, of which all workers have their part. */
export const SERVER_FAULTS = {
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

/** How often a round has a fault of the servers too, and how often a second worker has one. */
const SERVERS_TOO = 0.4;
const SECOND_WORKER = 0.5;
/** Of the session timeout: what no session may end by, and what every session ends by. */
const SHORT = [0.1, 0.45];
const LONG = [1.1, 1.5];

/**
 * Rounds of faults without an end, the same for the same seed. The kinds come in turns, shuffled anew
 * each time, so that every one is dealt in a run of some minutes.
 */
export function* schedule({ seed, server, workers, sessionTimeout }) {
  const random = new Random(seed);
  const workerKinds = turns(WORKER_FAULTS, random);
  const serverKinds = turns(SERVER_FAULTS[server], random);
  const duration = () => {
    const [low, high] = random.next() < 0.5 ? SHORT : LONG;
    return Math.round(sessionTimeout * random.between(low, high));
  };
  for (;;) {
    const faults = [];
    const targets = turns(workers, random);
    const count = random.next() < SECOND_WORKER ? 2 : 1;
    for (let index = 0; index < count; index++) {
      const fault = { kind: workerKinds.next().value, worker: targets.next().value };
      faults.push({ ...fault, duration: duration(), delivers: random.next() < 0.5 });
    }
    if (random.next() < SERVERS_TOO) {
      faults.push({ kind: serverKinds.next().value, duration: duration() });
    }
    for (const fault of faults) fault.after = Math.round(random.between(0, sessionTimeout / 2));
    yield { faults, quiet: Math.round(LEAST_QUIET * random.between(1, 2)) };
  }
}

function* turns(list, random) {
  for (;;) {
    const rest = [...list];
    while (rest.length > 0) yield rest.splice(random.whole(0, rest.length - 1), 1)[0];
  }
}
