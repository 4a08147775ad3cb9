import type { Random } from 'nestjs-zookeeper/testing';
import type { Fault } from '../live/events.js';

export interface PlannedFault {
  readonly fault: Fault;
  /** Milliseconds after the start of the sales. */
  readonly at: number;
  /** Milliseconds. */
  readonly duration: number;
}

const FAULTS: readonly Fault[] = ['pause', 'cut', 'kill', 'expire'];

/** Milliseconds from one fault to the next. */
const INTERVAL = [300, 1_500] as const;
/** Milliseconds. The longer faults outlast the session of their instance. */
const DURATION = [1_000, 5_000] as const;

/** Draws two faults of different kinds. */
export function planFaults(random: Random): PlannedFault[] {
  const first = random.pick(FAULTS);
  const second = random.pick(FAULTS.filter((fault) => fault !== first));
  let at = 0;
  return [first, second].map((fault) => {
    at += random.between(...INTERVAL);
    return { fault, at, duration: random.between(...DURATION) };
  });
}
