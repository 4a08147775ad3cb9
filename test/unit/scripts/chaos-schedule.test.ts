import { describe, expect, it } from 'vitest';
import {
  type PlannedRound,
  schedule,
  SERVER_FAULTS,
  WORKER_FAULTS,
} from '../../../scripts/chaos/schedule.js';

function rounds(seed: number, count: number): PlannedRound[] {
  const workers = ['w1', 'w2', 'w3'];
  const found: PlannedRound[] = [];
  for (const round of schedule({ seed, server: 'ensemble', workers, sessionTimeout: 2_000 })) {
    if (found.push(round) === count) break;
  }
  return found;
}

describe("the chaos run's schedule", () => {
  it('is the same for the same seed, and different for another seed', () => {
    expect(rounds(7, 50)).toEqual(rounds(7, 50));
    expect(rounds(7, 50)).not.toEqual(rounds(8, 50));
  });

  it('contains every kind of fault, and at most one fault for a worker at a time', () => {
    const dealt = rounds(7, 60);
    const kinds = dealt.flatMap(({ faults }) => faults.map(({ kind }) => kind));
    expect(new Set(kinds)).toEqual(new Set([...WORKER_FAULTS, ...SERVER_FAULTS.ensemble]));
    for (const { faults } of dealt) {
      const workers = faults.map(({ worker }) => worker);
      expect(new Set(workers).size).toBe(workers.length);
    }
  });
});
