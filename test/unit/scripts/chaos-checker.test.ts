import { describe, expect, it } from 'vitest';
import {
  assemble,
  check,
  ended,
  type Event,
  fault,
  lease,
  place,
  SETTING,
  stored,
  violations,
  write,
} from '../../support/chaos-events.js';

const LEASES = [...lease('a1', 1, 0, 10), ...lease('b1', 2, 12, 20)];
const LOST = { end: 'lost' } as const;
const PAGES = { key: 'pages', mode: 'read' } as const;

describe("the chaos run's checker", () => {
  it('accepts leases one after the other, whose events are in any order', () => {
    const late = stored('a1', 1, false);
    const work = [write('a1', 5), stored('a1', 1), place('a1', 0), write('b1', 13)];
    const events = [...LEASES, ...work, stored('b1', 2), place('b1', 1), late];
    expect(violations(...events)).toEqual({});
    expect(violations(...LEASES.toReversed())).toEqual({});
  });

  describe('the check for overlapping leases', () => {
    const name = 'no two leases overlap';

    it('finds an overlap, also of a lease without an end and of a reader and a writer', () => {
      expect(violations(...lease('a1', 1, 0, 10), ...lease('b1', 2, 8.5, 20))).toEqual({
        [name]: ['a1 and b1 both held till for 1.5 ms'],
      });
      const others = Array.from({ length: 200 }, (_, index) =>
        lease(`b${index}`, 2 + index, 10 + 2 * index, 11 + 2 * index),
      );
      expect(violations(...lease('a1', 1, 0, 400), ...others.flat())[name]).toHaveLength(195);
      const open = lease('a1', 1, 0, undefined);
      expect(violations(...open, ...lease('b1', 2, 8, 20))).toHaveProperty([name]);
      const readers = [...lease('a1', 1, 0, 10, PAGES), ...lease('b1', 1, 2, 9, PAGES)];
      expect(violations(...readers)).toEqual({});
      const writer = lease('c1', 2, 9.5, 20, { key: 'pages', mode: 'write' });
      expect(violations(...readers, ...writer)).toEqual({
        [name]: ['a1 and c1 both held pages for 0.5 ms'],
      });
    });

    it('accepts an overlap with a holder that was notified or killed, or that never had the lease', () => {
      const second = lease('b1', 2, 8, 20);
      const cut = fault('cut', 'a', 0, 1_500);
      expect(violations(...lease('a1', 1, 0, 7, LOST), ...second, cut)).toEqual({});
      const exited: Event = { type: 'exited', worker: 'a', life: 1, at: 7 };
      expect(violations(...lease('a1', 1, 0, undefined), exited, ...second)).toEqual({});
      expect(violations(...lease('a1', 1, 0, 10, { held: false }), ...second)).toEqual({});
    });

    it.each(['stop', 'block'])('accepts an overlap during a pause of the kind %s', (kind) => {
      const pause = fault(kind, 'a', 5, 3_000);
      const late = lease('a1', 1, 0, 3_001, LOST);
      const next = lease('b1', 2, 2_100, 2_200);
      expect(violations(pause, ...late, ...next)).toEqual({});
      // It ran until then, or continued long after, or another process was paused.
      const blind = lease('a1', 1, 0, 3_300, LOST);
      for (const events of [
        [pause, ...late, ...lease('b1', 2, 4, 2_200)],
        [pause, ...blind, ...next],
        [{ ...pause, worker: 'c' }, ...late, ...next],
      ]) {
        expect(violations(...events)).toHaveProperty([name]);
      }
    });

    it("accepts an overlap until the holder's own clock must end a session that the run expired", () => {
      const until = (at: number) =>
        violations(
          fault('expire', 'a', 5, 6),
          ...lease('a1', 1, 0, at, LOST),
          ...lease('b1', 2, 10, 20),
        );
      expect(until(1_500)).toEqual({});
      expect(until(1_800)).toHaveProperty([name]);
    });
  });

  it('finds more permits than the semaphore has', () => {
    const seats = { key: 'seats', mode: 'permit' as const };
    const two = { ...seats, count: 2 };
    const three = [...lease('a1', 1, 0, 10, two), ...lease('b1', 2, 1, 10, seats)];
    expect(violations(...three, ...lease('c1', 3, 10, 12, two))).toEqual({});
    expect(violations(...three, ...lease('c1', 3, 9, 12, seats))).toEqual({
      'permits are never exceeded': ['4 permits of seats were taken with c1'],
    });
  });

  it('finds work on an old lease, unless the run expired the session', () => {
    const name = 'no work starts after the next grant';
    const next = lease('b1', 2, 2_100, 2_200);
    const pause = fault('stop', 'a', 5, 3_000);
    const late = lease('a1', 1, 0, 3_001, LOST);
    const woke = (held: boolean): Event => {
      const by = { worker: 'a', id: 'a1', at: 3_000 };
      return { type: 'woke', ...by, held, aborted: true, abortedThen: true };
    };
    expect(violations(pause, ...late, write('a1', 4), woke(false), ...next)).toEqual({});
    expect(violations(pause, ...late, write('a1', 3_000.5), ...next)).toEqual({
      [name]: ['a1 worked on till 900.5 ms after the grant of b1'],
    });
    expect(violations(pause, ...late, woke(true), ...next)).toHaveProperty([name]);
    const expiry = fault('expire', 'a', 2_000, 2_001);
    const short = lease('a1', 1, 0, 2_150, LOST);
    expect(violations(expiry, ...short, write('a1', 2_140), ...next)).toEqual({});
  });

  it('finds a stale write that was accepted, and a write of a later lease that was refused', () => {
    expect(violations(...LEASES, stored('b1', 2), stored('a1', 1))).toEqual({
      'no stale write is accepted': ['a write of a1 to till under 1 was accepted after 2'],
    });
    const refused = [stored('a1', 2), stored('b1', 1, false)];
    expect(
      violations(...lease('a1', 2, 0, 10), ...lease('b1', 1, 12, 20), ...refused),
    ).toHaveProperty(['no write of a later lease is refused']);
    // The reply that grants the lock was sent before the run expired the session.
    const expired = [fault('expire', 'b', 10, 11), ...lease('b1', 1, 14, 40, LOST)];
    expect(violations(...lease('a1', 2, 12, 30), ...expired, ...refused)).toEqual({});
  });

  it('finds tokens that are equal or decrease', () => {
    const name = 'tokens rise';
    expect(violations(...lease('a1', 1, 0, 10), ...lease('b1', 1, 12, 20))).toEqual({
      [name]: ['a1 and b1 have the same token for till'],
    });
    expect(violations(...lease('a1', 2, 0, 10), ...lease('b1', 1, 12, 20))).toMatchObject({
      [name]: ["the token of b1 for till fell below a1's"],
    });
  });

  it('finds a grant out of the order of arrival in one directory, except among readers', () => {
    const name = 'grants are in the order of arrival';
    expect(violations(...LEASES, place('a1', 4), place('b1', 3))).toEqual({
      [name]: ['b1 was granted till after a lease that was requested later'],
    });
    expect(violations(...LEASES, place('a1', 4, 1), place('b1', 0, 2))).toEqual({});
    const readers = [...lease('a1', 1, 0, 10, PAGES), ...lease('b1', 2, 5, 10, PAGES)];
    const placed = [...readers, place('a1', 4), place('b1', 3)];
    expect(violations(...placed)).toEqual({});
    const writer = lease('c1', 3, 12, 20, { key: 'pages', mode: 'write' });
    expect(violations(...placed, ...writer, place('c1', 2))).toHaveProperty([name]);
  });

  it('finds a worker that got fewer leases than its share in the quiet phase', () => {
    const name = 'every worker is granted leases';
    const quiet: Event = { type: 'quiet', from: 0, until: 1_000, disturbed: false };
    const round: Event = { type: 'round', waited: 0, healed: { a: null } };
    const grants = (count: number) =>
      Array.from({ length: count }, (_, index) =>
        lease(`a${index}`, index, 10 * index, 10 * index + 5),
      ).flat();
    const after = (...faults: Event[]) => violations(round, quiet, ...grants(2), ...faults);
    expect(violations(round, quiet, ...grants(3))).toEqual({});
    expect(after()).toEqual({ [name]: ['a had 2 grants in 1000.0 ms'] });
    expect(violations(round, { ...quiet, disturbed: true }, ...grants(2))).toEqual({});
    const killed = (worker: string, from: number) => fault('kill', worker, from, from + 500);
    expect(after(killed('a', -800))).toEqual({});
    for (const other of [killed('b', -800), killed('a', -8_000), killed('a', 2_000)]) {
      expect(after(other)).toHaveProperty([name]);
    }
    // A restart of the servers explains a worker that was killed before it.
    const restarted = (from: number) =>
      after(fault('kill', 'a', -7_000, -6_500), fault('restart', undefined, from, -3_000));
    expect(restarted(-4_000)).toEqual({});
    expect(restarted(-3_500)).toHaveProperty([name]);
  });

  it('finds a lease that was lost by a short interruption', () => {
    const name = 'no short interruption ends a lease';
    const lostWith = (...faults: Event[]) =>
      violations(...lease('a1', 1, 0, 1_600, LOST), ...faults);
    expect(lostWith()).toEqual({
      [name]: ['a1 ended without an interruption that explains it: it is lost'],
    });
    // A fault of the servers concerns all workers, and two short ones without a gap count as one
    // long one.
    for (const faults of [
      [fault('stall', 'a', 100, 1_200)],
      [fault('no-quorum', undefined, 100, 1_200)],
      [fault('stall', 'a', 100, 600), fault('cut', 'a', 800, 1_400)],
    ]) {
      expect(lostWith(...faults)).toEqual({});
    }
    for (const short of [fault('stall', 'a', 300, 1_200), fault('stall', 'b', 100, 1_200)]) {
      expect(lostWith(short)).toHaveProperty([name]);
    }
  });

  it('finds a worker that did not recover in time', () => {
    const name = 'every worker recovers in time';
    const round = (waited: number): Event => {
      return { type: 'round', waited, healed: { a: 1_000, b: null } };
    };
    const after = (milliseconds: number) => lease('a1', 1, 1_000 + milliseconds, 9_000);
    expect(violations(round(0), ...after(3_166))).toEqual({});
    expect(violations(round(0), ...after(3_200))).toEqual({
      [name]: ['a recovered after 3200.0 ms, more than 3166.7 ms'],
    });
    // The machine delayed it.
    expect(violations(round(50), ...after(3_200))).toEqual({});
    expect(violations(round(0), ...lease('a1', 1, 900, 950))).toHaveProperty([name]);
  });

  it('finds a reported deadlock, and counts the waits that were checked for deadlocks', () => {
    const name = 'no false deadlock is reported';
    const nested = (from: number, at: number): Event => {
      return { type: 'nested', worker: 'a', from, at };
    };
    const waits = [nested(0, 400), nested(0, 800), nested(1_000, 4_000)];
    expect(check(assemble(waits), SETTING)).toContainEqual({ name, made: 2, violations: [] });
    const message = 'deadlock: "room" is held';
    expect(violations(...waits, { type: 'deadlock', worker: 'a', message, at: 900 })).toEqual({
      [name]: ['a reported a deadlock: "room" is held'],
    });
  });

  it('finds znodes that are left, a run that did not list them, and errors of others than the library', () => {
    const name = 'no ephemeral znode is left';
    const left = { ...ended, orphans: ['/chaos/till/x-lock-0000000001'] };
    expect(violations(left)).toEqual({ [name]: ['/chaos/till/x-lock-0000000001 is left'] });
    const broken = check(assemble([]), SETTING).find((made) => made.name === name);
    expect(broken!.violations).toEqual(['the run ended before the znodes were listed']);
    expect(violations({ type: 'broken', worker: 'a', why: 'TypeError: x', at: 5 })).toEqual({
      'no unexpected error': ['a: TypeError: x'],
    });
  });
});
