import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { RecipeConflictError } from '../../../lib/kernel/errors.js';
import {
  type Assignment,
  decodeAssignment,
  encodeAssignment,
  partitionsByMember,
  rebalance,
} from '../../../lib/coordination/recipes/partition-assignment.js';

const partitionsOf = (assignment: Parameters<typeof partitionsByMember>[0], id: string) =>
  partitionsByMember(assignment).get(id) ?? [];

const members = fc
  .uniqueArray(fc.constantFrom(...'abcdefgh'), { minLength: 1 })
  .map((ids) => ids.sort());

/** The most partitions that can stay with their members in a balanced assignment. */
function mostThatCanStay(partitions: number, ids: readonly string[], previous: Assignment): number {
  const share = Math.floor(partitions / ids.length);
  const counts = ids.map((id) => partitionsOf(previous, id).length);
  const stay = counts.reduce((sum, count) => sum + Math.min(count, share), 0);
  return stay + Math.min(counts.filter((count) => count > share).length, partitions % ids.length);
}

describe('rebalance', () => {
  it('balances exactly, and moves as few partitions as possible, for any sequence of joins and leaves', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 40 }), fc.array(members), (partitions, groups) => {
        let previous: Assignment | undefined;
        for (const ids of groups) {
          const next = rebalance(partitions, ids, previous);
          expect(next.owners).toHaveLength(partitions);
          const counts = ids.map((id) => partitionsOf(next, id).length);
          expect(Math.max(...counts) - Math.min(...counts)).toBeLessThanOrEqual(1);
          if (previous) {
            const before = previous;
            const stayed = ids
              .flatMap((id) => partitionsOf(next, id).map((index) => [id, index] as const))
              .filter(([id, index]) => before.members[before.owners[index]!] === id);
            expect(stayed).toHaveLength(mostThatCanStay(partitions, ids, before));
          }
          previous = decodeAssignment('/group', Buffer.from(encodeAssignment(next)));
          expect(previous).toEqual(next);
        }
      }),
      { numRuns: process.env.NIGHTLY ? 500 : 50 },
    );
  });

  it('gives the partitions of a member that was replaced to the new one', () => {
    const before = rebalance(6, ['a', 'b', 'c'], undefined);
    const after = rebalance(6, ['a', 'b', 'd'], before);
    expect(partitionsOf(after, 'd')).toEqual(partitionsOf(before, 'c'));
  });

  it('assigns nothing to members without a partition', () => {
    expect(rebalance(1, ['a', 'b'], undefined).owners).toEqual([0]);
  });
});

describe('decodeAssignment', () => {
  it('refuses data that is no assignment', () => {
    const texts = ['{}', '127.0.0.1', 'null', '[]', '{"members":["a"],"owners":[1]}'];
    for (const text of [...texts, '{"members":[1],"owners":[0]}']) {
      expect(() => decodeAssignment('/p', Buffer.from(text))).toThrow(RecipeConflictError);
    }
    expect(decodeAssignment('/p', Buffer.alloc(0))).toBeUndefined();
  });
});
