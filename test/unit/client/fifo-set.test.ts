import { describe, expect, it } from 'vitest';
import { FifoSet } from '../../../lib/client/fifo-set.js';

interface Member {
  readonly name: number;
}

const members = (count: number): Member[] => Array.from({ length: count }, (_, name) => ({ name }));

function setOf(list: readonly Member[]): FifoSet<Member> {
  const set = new FifoSet<Member>();
  for (const member of list) set.add(member);
  return set;
}

describe('FifoSet', () => {
  it('behaves like an array for any order of insertions and removals', () => {
    const set = new FifoSet<Member>();
    let model: Member[] = [];
    let state = 20261122;
    const random = (below: number) => (state = (state * 48271) % 2147483647) % below;
    for (const member of members(5000)) {
      set.add(member);
      model.push(member);
      for (let leaving = random(3); leaving > 0 && model.length > 0; leaving--) {
        const gone = model[random(2) === 0 ? 0 : random(model.length)]!;
        expect(set.delete(gone)).toBe(true);
        expect(set.delete(gone)).toBe(false);
        model = model.filter((other) => other !== gone);
      }
      expect(set.size).toBe(model.length);
      expect(set.first).toBe(model[0]);
    }
    expect([...set]).toEqual(model);
    for (const left of model) set.delete(left);
    expect([set.first, set.size]).toEqual([undefined, 0]);
  });

  it('allows the removal of members during the iteration', () => {
    const all = members(200);
    const set = setOf(all);
    const seen: Member[] = [];
    for (const member of set) {
      seen.push(member);
      set.delete(member);
    }
    expect(seen).toEqual(all);
    expect(set.size).toBe(0);
  });

  it('keeps no reference to removed members', () => {
    const set = setOf(members(10_000));
    for (let first; (first = set.first);) set.delete(first);
    expect((set as unknown as { items: unknown[] }).items.length).toBeLessThanOrEqual(32);
  });
});
