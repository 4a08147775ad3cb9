import { describe, expect, it } from 'vitest';
import { Roster } from '../../lib/recipes/internals/fifo-set.js';

interface Member {
  readonly name: number;
}

const members = (count: number): Member[] => Array.from({ length: count }, (_, name) => ({ name }));

function rosterOf(list: readonly Member[]): Roster<Member> {
  const roster = new Roster<Member>();
  for (const member of list) roster.add(member);
  return roster;
}

describe('Roster', () => {
  it('keeps the order of arrival, whoever leaves', () => {
    const all = members(100);
    const roster = rosterOf(all);
    for (const { name } of all) if (name % 7 !== 3) expect(roster.delete(all[name]!)).toBe(true);
    const left = all.filter(({ name }) => name % 7 === 3);
    expect([...roster]).toEqual(left);
    expect(roster.first).toBe(left[0]);
    expect(roster.size).toBe(left.length);
  });

  it('does what an array does, in whatever order its members come and go', () => {
    const roster = new Roster<Member>();
    let model: Member[] = [];
    let state = 20261122;
    const random = (below: number) => (state = (state * 48271) % 2147483647) % below;
    for (const member of members(5000)) {
      roster.add(member);
      model.push(member);
      for (let leaving = random(3); leaving > 0 && model.length > 0; leaving--) {
        const gone = model[random(2) === 0 ? 0 : random(model.length)]!;
        expect(roster.delete(gone)).toBe(true);
        model = model.filter((other) => other !== gone);
      }
      expect(roster.size).toBe(model.length);
      expect(roster.first).toBe(model[0]);
    }
    expect([...roster]).toEqual(model);
  });

  it('knows nobody who has left, or never came', () => {
    const [first, second] = members(2) as [Member, Member];
    const roster = rosterOf([first]);
    expect(roster.delete(second)).toBe(false);
    expect(roster.delete(first)).toBe(true);
    expect(roster.delete(first)).toBe(false);
    expect(roster.first).toBeUndefined();
    expect(roster.size).toBe(0);
  });

  it('may be left, one after the other, by those it is read for', () => {
    const all = members(200);
    const roster = rosterOf(all);
    const seen: Member[] = [];
    for (const member of roster) {
      seen.push(member);
      roster.delete(member);
    }
    expect(seen).toEqual(all);
    expect(roster.size).toBe(0);
  });

  it('holds on to nobody who has left', () => {
    const roster = rosterOf(members(10_000));
    for (let first; (first = roster.first);) roster.delete(first);
    expect((roster as unknown as { items: unknown[] }).items.length).toBeLessThanOrEqual(32);
  });
});
