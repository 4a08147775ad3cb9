import { expect, it } from 'vitest';
import type { FaultKind, PlannedFault } from '../../../scripts/simulation/fault-plan.js';
import { deletionDetectionTime, FaultWindows } from '../../../scripts/simulation/fault-windows.js';
import type { Setting } from '../../../scripts/simulation/setting.js';

const SETTING: Setting = {
  processes: ['p1', 'p2'].map((name) => ({ name, clockRate: 1, nest: false, onlyReads: false })),
  servers: 1,
  sessionTimeout: 1_000,
  latency: [0.1, 1],
  lag: [0, 0],
  faultsUntil: 3_500,
  policy: 'session',
  lingerProbability: 0,
  strictProbability: 0,
  jobs: [],
};
const DELETION = 1_000;
const DETECTION = deletionDetectionTime(SETTING);
/** A tenth of the session timeout, which is the longest pause between two attempts, and the messages of a connect. */
const RECONNECTION = 100 + 20;

type OtherFault = [kind: FaultKind, from: number, until: number, target?: string];

/** Returns the last time at which p1 may not know yet that its node was deleted at `DELETION`. */
function noticed(...others: OtherFault[]): number {
  const planned: OtherFault[] = [['delete node', DELETION, DELETION + 400], ...others];
  const faults = planned
    .map(([kind, from, until, target = 'p1']): Omit<PlannedFault, 'index'> => {
      return { kind, target, from, until };
    })
    .toSorted((a, b) => a.from - b.from)
    .map((fault, index) => ({ index, ...fault }));
  const windows = new FaultWindows(faults, SETTING);
  let last = DELETION;
  while (windows.hasUnnoticedLoss('p1', last + 1)) last++;
  return last;
}

it('a process notices that its node was deleted as soon as the other faults allow it', () => {
  const lostSync = (from: number, until: number, target = 'p1'): OtherFault => {
    return ['lose sync reply', from, until, target];
  };
  const short = DELETION + DETECTION;
  expect(noticed()).toBe(short);
  // Without a connection, it notices the end of its session.
  expect(noticed(['cut', 900, 3_000])).toBe(DELETION + 1_100);
  const recovered = 3_000 + RECONNECTION + DETECTION;
  expect(noticed(lostSync(900, 3_000))).toBe(recovered);
  expect(noticed(lostSync(900, 2_000), lostSync(2_050, 3_000))).toBe(recovered);
  expect(noticed(lostSync(900, 3_000), ['cut', 2_500, 5_000])).toBe(3_000 + 1_100);
  // These faults of another process, after the deletion and before it do not matter.
  expect(noticed(lostSync(900, 3_000, 'p2'))).toBe(short);
  expect(noticed(lostSync(1_300, 3_000))).toBe(short);
  expect(noticed(lostSync(500, 950))).toBe(short);
});

it('a process that is paused again at the end of a pause runs after the second one', () => {
  const pause = (from: number, until: number, target = 'p1') =>
    ({ index: 0, kind: 'pause', target, from, until }) as const;
  const faults = [pause(10, 20), pause(20, 30), pause(25, 40, 'p2'), pause(31, 50)];
  const windows = new FaultWindows(faults, SETTING).toCheckerFaults();
  expect(windows.map(({ until }) => until)).toEqual([30, 30, 40, 50]);
});
