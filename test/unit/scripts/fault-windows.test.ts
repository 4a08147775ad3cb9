import { describe, expect, it } from 'vitest';
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

describe('the time within which a process notices that its node was deleted', () => {
  it('is short without another fault', () => {
    expect(noticed()).toBe(DELETION + DETECTION);
  });

  it('is that of a lost session during another fault', () => {
    expect(noticed(['cut', 900, 3_000])).toBe(DELETION + 1_100);
  });

  it('ends soon after the replies to sync are not lost any more', () => {
    expect(noticed(['lose sync reply', 900, 3_000])).toBe(3_000 + RECONNECTION + DETECTION);
    expect(noticed(['lose sync reply', 900, 1_050])).toBe(1_050 + RECONNECTION + DETECTION);
  });

  it('is that of a lost session after the replies to sync are not lost any more, if another fault follows', () => {
    expect(noticed(['lose sync reply', 900, 3_000], ['cut', 2_500, 5_000])).toBe(3_000 + 1_100);
  });

  it('includes two faults that lose replies to sync one after the other', () => {
    expect(noticed(['lose sync reply', 900, 2_000], ['lose sync reply', 2_050, 3_000])).toBe(
      3_000 + RECONNECTION + DETECTION,
    );
  });

  it('is not longer because of lost replies to sync that come later or belong to another process', () => {
    expect(noticed(['lose sync reply', 900, 3_000, 'p2'])).toBe(DELETION + DETECTION);
    expect(noticed(['lose sync reply', 1_300, 3_000])).toBe(DELETION + DETECTION);
    expect(noticed(['lose sync reply', 500, 950])).toBe(DELETION + DETECTION);
  });
});
