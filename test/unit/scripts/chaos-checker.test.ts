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

describe("the chaos run's checker", () => {
  it('accepts leases one after the other', () => {
    expect(
      violations(
        ...lease('a1', 1, 0, 10),
        write('a1', 5),
        stored('a1', 1),
        place('a1', 0),
        ...lease('b1', 2, 12, 20),
        write('b1', 13),
        stored('b1', 2),
        place('b1', 1),
        // Its write reached the store late.
        stored('a1', 1, false),
      ),
    ).toEqual({});
  });

  it('reads events in any order', () => {
    expect(
      violations(...[...lease('a1', 1, 0, 10), ...lease('b1', 2, 12, 20)].toReversed()),
    ).toEqual({});
  });

  describe('the check for overlapping leases', () => {
    const name = 'no two leases overlap';

    it('are found', () => {
      expect(violations(...lease('a1', 1, 0, 10), ...lease('b1', 2, 8.5, 20))).toEqual({
        [name]: ['a1 and b1 both held till for 1.5 ms'],
      });
    });

    it('finds an overlap with a first lease without an end', () => {
      expect(violations(...lease('a1', 1, 0, undefined), ...lease('b1', 2, 8, 20))).toHaveProperty([
        name,
      ]);
    });

    it('finds an overlap behind many other leases', () => {
      const others = Array.from({ length: 200 }, (_, index) =>
        lease(`b${index}`, 2 + index, 10 + 2 * index, 11 + 2 * index),
      );
      expect(violations(...lease('a1', 1, 0, 400), ...others.flat())[name]).toHaveLength(195);
    });

    it('finds an overlap of a reader and a writer, but none of two readers', () => {
      const pages = { key: 'pages', mode: 'read' as const };
      const readers = [...lease('a1', 1, 0, 10, pages), ...lease('b1', 1, 2, 9, pages)];
      expect(violations(...readers)).toEqual({});
      const writer = lease('c1', 2, 9.5, 20, { key: 'pages', mode: 'write' });
      expect(violations(...readers, ...writer)).toEqual({
        [name]: ['a1 and c1 both held pages for 0.5 ms'],
      });
    });

    it('accepts an overlap if the first holder was notified, or its process was killed', () => {
      const second = lease('b1', 2, 8, 20);
      const cut = fault('cut', 'a', 0, 1_500);
      expect(violations(...lease('a1', 1, 0, 7, { end: 'lost' }), ...second, cut)).toEqual({});
      const exited: Event = { type: 'exited', worker: 'a', life: 1, at: 7 };
      expect(violations(...lease('a1', 1, 0, undefined), exited, ...second)).toEqual({});
    });

    it.each(['stop', 'block'])(
      'accepts an overlap while the first process was stopped: %s',
      (kind) => {
        const pause = fault(kind, 'a', 5, 3_000);
        const late = lease('a1', 1, 0, 3_001, { end: 'lost' });
        expect(violations(pause, ...late, ...lease('b1', 2, 2_100, 2_200))).toEqual({});
        // It ran until then, or continued long after.
        expect(violations(pause, ...late, ...lease('b1', 2, 4, 2_200))).toHaveProperty([name]);
        const blind = lease('a1', 1, 0, 3_300, { end: 'lost' });
        expect(violations(pause, ...blind, ...lease('b1', 2, 2_100, 2_200))).toHaveProperty([name]);
        expect(
          violations({ ...pause, worker: 'c' }, ...late, ...lease('b1', 2, 2_100, 2_200)),
        ).toHaveProperty([name]);
      },
    );

    it("accepts an overlap until the holder's own clock must end a session that the run expired", () => {
      const expiry = fault('expire', 'a', 5, 6);
      const next = lease('b1', 2, 10, 20);
      const until = (at: number) =>
        violations(expiry, ...lease('a1', 1, 0, at, { end: 'lost' }), ...next);
      expect(until(1_500)).toEqual({});
      expect(until(1_800)).toHaveProperty([name]);
    });

    it('accepts an overlap with a lease that was lost before its holder received it', () => {
      const stillborn = lease('a1', 1, 0, 10, { held: false });
      expect(violations(...stillborn, ...lease('b1', 2, 5, 20))).toEqual({});
    });
  });

  it('finds more permits than the semaphore has', () => {
    const seats = { key: 'seats', mode: 'permit' as const };
    const three = [
      ...lease('a1', 1, 0, 10, { ...seats, count: 2 }),
      ...lease('b1', 2, 1, 10, seats),
    ];
    expect(violations(...three)).toEqual({});
    expect(violations(...three, ...lease('c1', 3, 10, 12, { ...seats, count: 2 }))).toEqual({});
    expect(violations(...three, ...lease('c1', 3, 9, 12, seats))).toEqual({
      'permits are never exceeded': ['4 permits of seats were taken with c1'],
    });
  });

  describe('the check for work on an old lease', () => {
    const name = 'no work starts after the next grant';
    const next = lease('b1', 2, 2_100, 2_200);

    it('finds such work, also after a pause', () => {
      const pause = fault('stop', 'a', 5, 3_000);
      const late = lease('a1', 1, 0, 3_001, { end: 'lost' });
      expect(violations(pause, ...late, write('a1', 4), ...next)).toEqual({});
      expect(violations(pause, ...late, write('a1', 3_000.5), ...next)).toEqual({
        [name]: ['a1 worked on till 900.5 ms after the grant of b1'],
      });
    });

    it('finds a lease that was still reported as held after the pause', () => {
      const pause = fault('block', 'a', 5, 3_000);
      const late = lease('a1', 1, 0, 3_001, { end: 'lost' });
      const woke = (held: boolean): Event => {
        return {
          type: 'woke',
          worker: 'a',
          id: 'a1',
          held,
          aborted: true,
          abortedThen: true,
          at: 3_000,
        };
      };
      expect(violations(pause, ...late, woke(false), ...next)).toEqual({});
      expect(violations(pause, ...late, woke(true), ...next)).toHaveProperty([name]);
    });

    it('accepts such work if the run expired the session', () => {
      const expiry = fault('expire', 'a', 2_000, 2_001);
      const late = lease('a1', 1, 0, 2_150, { end: 'lost' });
      expect(violations(expiry, ...late, write('a1', 2_140), ...next)).toEqual({});
    });
  });

  it('finds a stale write that was accepted', () => {
    const leases = [...lease('a1', 1, 0, 10), ...lease('b1', 2, 12, 20)];
    expect(violations(...leases, stored('b1', 2), stored('a1', 1, false))).toEqual({});
    expect(violations(...leases, stored('b1', 2), stored('a1', 1))).toEqual({
      'no stale write is accepted': ['a write of a1 to till under 1 was accepted after 2'],
    });
  });

  it('finds a write that was rejected because of the token of an earlier lease', () => {
    const found = violations(
      ...lease('a1', 2, 0, 10),
      ...lease('b1', 1, 12, 20),
      stored('a1', 2),
      stored('b1', 1, false),
    );
    expect(found).toHaveProperty(['no write of a later lease is refused']);
  });

  it('accepts a refused write under a lease that was granted after the run expired its session', () => {
    const found = violations(
      fault('expire', 'b', 10, 11),
      ...lease('a1', 2, 12, 30),
      // The reply that grants the lock was sent before the session ended.
      ...lease('b1', 1, 14, 40, { end: 'lost' }),
      stored('a1', 2),
      stored('b1', 1, false),
    );
    expect(found).toEqual({});
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

  describe('the check for the order of arrival', () => {
    const name = 'grants are in the order of arrival';
    const two = [...lease('a1', 1, 0, 10), ...lease('b1', 2, 12, 20)];

    it('uses the order of the znodes', () => {
      expect(violations(...two, place('a1', 3), place('b1', 4))).toEqual({});
      expect(violations(...two, place('a1', 4), place('b1', 3))).toEqual({
        [name]: ['b1 was granted till after a lease that was requested later'],
      });
    });

    it('starts again in a new directory', () => {
      expect(violations(...two, place('a1', 4, 1), place('b1', 0, 2))).toEqual({});
    });

    it('ignores the order of two readers, but not of a reader and a writer', () => {
      const pages = { key: 'pages', mode: 'read' as const };
      const readers = [...lease('a1', 1, 0, 10, pages), ...lease('b1', 2, 5, 10, pages)];
      const placed = [place('a1', 4), place('b1', 3)];
      expect(violations(...readers, ...placed)).toEqual({});
      const writer = lease('c1', 3, 12, 20, { key: 'pages', mode: 'write' });
      expect(violations(...readers, ...placed, ...writer, place('c1', 2))).toHaveProperty([name]);
    });
  });

  it('finds a worker that got fewer leases than its share in the quiet phase', () => {
    const name = 'every worker is granted leases';
    const quiet: Event = { type: 'quiet', from: 0, until: 1_000, disturbed: false };
    const round: Event = { type: 'round', waited: 0, healed: { a: null } };
    const grants = (count: number) =>
      Array.from({ length: count }, (_, index) =>
        lease(`a${index}`, index, 10 * index, 10 * index + 5),
      ).flat();
    expect(violations(round, quiet, ...grants(3))).toEqual({});
    expect(violations(round, quiet, ...grants(2))).toEqual({
      [name]: ['a had 2 grants in 1000.0 ms'],
    });
    expect(violations(round, { ...quiet, disturbed: true }, ...grants(2))).toEqual({});
    const killed = (worker: string, from: number) =>
      violations(round, quiet, ...grants(2), fault('kill', worker, from, from + 500));
    expect(killed('a', -800)).toEqual({});
    expect(killed('b', -800)).toHaveProperty([name]);
    expect(killed('a', -8_000)).toHaveProperty([name]);
    expect(killed('a', 2_000)).toHaveProperty([name]);
    const restarted = (worker: string | undefined, from: number) =>
      violations(
        round,
        quiet,
        ...grants(2),
        fault('kill', 'a', -7_000, -6_500),
        fault('restart', worker, from, -3_000),
      );
    expect(restarted(undefined, -4_000)).toEqual({});
    expect(restarted(undefined, -3_500)).toHaveProperty([name]);
    expect(restarted('a', -4_000)).toHaveProperty([name]);
  });

  it('finds a lease that was lost by a short interruption', () => {
    const name = 'no short interruption ends a lease';
    const lost = lease('a1', 1, 0, 1_600, { end: 'lost' });
    expect(violations(...lost, fault('stall', 'a', 100, 1_200))).toEqual({});
    expect(violations(...lost, fault('stall', 'a', 300, 1_200))).toHaveProperty([name]);
    expect(violations(...lost, fault('stall', 'b', 100, 1_200))).toHaveProperty([name]);
    expect(violations(...lost)).toEqual({
      [name]: ['a1 ended without an interruption that explains it: it is lost'],
    });
    // A fault of the servers concerns all workers, and two short ones without a gap count as one
    // long one.
    expect(violations(...lost, fault('no-quorum', undefined, 100, 1_200))).toEqual({});
    const both = [fault('stall', 'a', 100, 600), fault('cut', 'a', 800, 1_400)];
    expect(violations(...lost, ...both)).toEqual({});
    expect(violations(...lost, fault('delay', 'a', 100, 1_500))).toHaveProperty([name]);
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
    expect(violations(...waits)).toEqual({});
    expect(check(assemble(waits), SETTING)).toContainEqual({ name, made: 2, violations: [] });
    const reported: Event = {
      type: 'deadlock',
      worker: 'a',
      message: 'deadlock: "room" is held',
      at: 900,
    };
    expect(violations(...waits, reported)).toEqual({
      [name]: ['a reported a deadlock: "room" is held'],
    });
  });

  it('finds znodes that are left, and a run that did not list them', () => {
    const name = 'no ephemeral znode is left';
    const left = { ...ended, orphans: ['/chaos/till/x-lock-0000000001'] };
    expect(violations(left)).toEqual({ [name]: ['/chaos/till/x-lock-0000000001 is left'] });
    const [broken] = check(assemble([]), SETTING).filter((made) => made.name === name);
    expect(broken!.violations).toEqual(['the run ended before the znodes were listed']);
  });

  it('finds errors that are not from the library', () => {
    const broken: Event = { type: 'broken', worker: 'a', why: 'TypeError: x', at: 5 };
    expect(violations(broken)).toEqual({
      'no unexpected error': ['a: TypeError: x'],
    });
  });
});
