import { describe, expect, it } from 'vitest';
import { FifoSet } from '../../../lib/recipes/internals/fifo-set.js';

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
  it('keeps the order of arrival, whoever leaves', () => {
    const all = members(100);
    const set = setOf(all);
    for (const { name } of all) if (name % 7 !== 3) expect(set.delete(all[name]!)).toBe(true);
    const left = all.filter(({ name }) => name % 7 === 3);
    expect([...set]).toEqual(left);
    expect(set.first).toBe(left[0]);
    expect(set.size).toBe(left.length);
  });

  it('does what an array does, in whatever order its members come and go', () => {
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
        model = model.filter((other) => other !== gone);
      }
      expect(set.size).toBe(model.length);
      expect(set.first).toBe(model[0]);
    }
    expect([...set]).toEqual(model);
  });

  it('knows nobody who has left, or never came', () => {
    const [first, second] = members(2) as [Member, Member];
    const set = setOf([first]);
    expect(set.delete(second)).toBe(false);
    expect(set.delete(first)).toBe(true);
    expect(set.delete(first)).toBe(false);
    expect(set.first).toBeUndefined();
    expect(set.size).toBe(0);
  });

  it('may be left, one after the other, by those it is read for', () => {
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

  it('holds on to nobody who has left', () => {
    const set = setOf(members(10_000));
    for (let first; (first = set.first);) set.delete(first);
    expect((set as unknown as { items: unknown[] }).items.length).toBeLessThanOrEqual(32);
  });
});
