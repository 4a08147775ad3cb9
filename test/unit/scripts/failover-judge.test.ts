import { describe, expect, it } from 'vitest';
import {
  type Event,
  type FaultKind,
  judge as judgeHistory,
} from '../../../scripts/failover/judge.js';

const judge = (...history: Event[]) =>
  judgeHistory(history, { sessionTimeout: 2_000, tickTime: 500, creates: [9, 10, 30] });

const elected = (instance: string, token: bigint, at: number): Event => {
  return { type: 'elected', instance, token, at };
};
const ended = (instance: string, token: bigint, at: number): Event => {
  return { type: 'ended', instance, token, at };
};
const write = (instance: string, token: bigint, at: number, accepted = true): Event => {
  return { type: 'write', instance, token, at, accepted };
};
const fault = (kind: FaultKind, instance: string, token: bigint, at: number) => {
  return { type: 'fault' as const, kind, instance, token, at };
};

/** Leader a, whose session the run has expired, and then leader b. */
const EXPIRED = [elected('a', 1n, 0), fault('expiries', 'a', 1n, 100), elected('b', 2n, 110)];

describe("the failover script's judge", () => {
  it('accepts leaders that follow each other in time', () => {
    const verdict = judge(
      elected('a', 1n, 0),
      write('a', 1n, 0),
      fault('resignations', 'a', 1n, 95),
      // Reported late: the times of the instances count.
      elected('b', 2n, 125),
      ended('a', 1n, 100),
      write('b', 2n, 126),
      fault('kills', 'b', 2n, 200),
      { type: 'exited', instance: 'b', at: 202 },
      elected('c', 3n, 3_200),
      fault('drops', 'c', 3n, 4_000),
      // The dropped connection ended no leadership; this expiry did.
      fault('expiries', 'c', 3n, 5_000),
      ended('c', 3n, 5_010),
      elected('a', 4n, 5_020),
    );
    expect(verdict).toMatchObject({
      failures: [],
      overlaps: 0,
      failovers: { resignations: [25], kills: [3_000], expiries: [20], drops: [] },
      survived: 1,
      medianCreate: 10,
      unaware: [],
    });
  });

  it('finds two leaders at the same time, until the clock of the first must end an expired session', () => {
    const verdict = judge(
      elected('a', 1n, 0),
      fault('drops', 'a', 1n, 100),
      elected('b', 2n, 2_000),
      ended('a', 1n, 2_001.5),
    );
    expect(verdict.overlaps).toBe(1);
    expect(verdict.failures).toEqual(['a still led 1.50 ms after b was elected']);
    const late = (at: number) =>
      judge(...EXPIRED, write('b', 2n, 111), write('a', 1n, 112, false), ended('a', 1n, at));
    expect(late(115)).toMatchObject({ failures: [], unaware: [5], refusedWrites: 1 });
    expect(late(2_101)).toMatchObject({ overlaps: 1, unaware: [] });
    // It never ends.
    expect(judge(...EXPIRED).overlaps).toBe(1);
  });

  it('finds an accepted write of the former leader after the next one has begun', () => {
    const verdict = judge(
      ...EXPIRED,
      write('b', 2n, 111),
      write('a', 1n, 112),
      ended('a', 1n, 115),
    );
    expect(verdict.overlaps).toBe(1);
    expect(verdict.failures).toEqual(['a write of a under token 1 was accepted after 2']);
  });

  it('finds a token that does not rise, and a leadership that ended without a fault', () => {
    const killed = fault('kills', 'a', 2n, 100);
    const exited: Event = { type: 'exited', instance: 'a', at: 101 };
    for (const token of [1n, 2n]) {
      const { failures } = judge(elected('a', 2n, 0), killed, exited, elected('b', token, 2_000));
      expect(failures).toEqual([`token ${token} of b came after 2`]);
    }
    expect(judge(elected('a', 1n, 0), ended('a', 1n, 50), elected('b', 2n, 60)).failures).toEqual([
      'b replaced a without a fault',
    ]);
  });

  it.each<[FaultKind, number]>([
    ['kills', 3_000],
    ['resignations', 30],
  ])('finds a time without a leader above the limit after the fault %s', (kind, limit) => {
    const after = (milliseconds: number) =>
      judge(
        elected('a', 1n, 0),
        fault(kind, 'a', 1n, 100),
        ended('a', 1n, 100),
        elected('b', 2n, 100 + milliseconds),
      );
    expect(after(limit).failures).toEqual([]);
    const failures = [`${kind}: no leader for ${limit}.50 ms, more than ${limit.toFixed(2)} ms`];
    expect(after(limit + 0.5)).toMatchObject({ failures, overlaps: 0 });
  });

  it('ignores the time of a failover that the machine disturbed, but still checks for two leaders', () => {
    const verdict = judge(
      elected('a', 1n, 0),
      { ...fault('resignations', 'a', 1n, 100), disturbed: true },
      ended('a', 1n, 100),
      elected('b', 2n, 200),
      { ...fault('resignations', 'b', 2n, 300), disturbed: true },
      elected('c', 3n, 301),
      ended('b', 2n, 302),
    );
    expect(verdict).toMatchObject({ overlaps: 1, disturbed: [100, -1] });
    expect(verdict.failovers.resignations).toEqual([]);
    expect(verdict.failures).toHaveLength(1);
  });
});
