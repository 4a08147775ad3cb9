import { describe, expect, test } from 'vitest';
import { Sessions } from '../../../lib/embedded/store.js';

const TICK = 500;

describe('A session', () => {
  test('expires at the first tick after its timeout, counted from the last request of its client', () => {
    const sessions = new Sessions(TICK, 0);
    const session = sessions.open(1000, 100);
    expect(session.expiresAt).toBe(1500);
    sessions.touch(session, 1000, 700);
    expect(sessions.expired(1999)).toEqual([]);
    expect(sessions.expired(2000)).toEqual([session]);
  });

  test('that is renewed exactly at a tick expires at the next one', () => {
    const sessions = new Sessions(TICK, 0);
    expect(sessions.open(1000, 0).expiresAt).toBe(1500);
  });

  test('no longer expires after it is removed', () => {
    const sessions = new Sessions(TICK, 0);
    const { id } = sessions.open(1000, 0);
    sessions.remove(id);
    expect(sessions.get(id)).toBeUndefined();
    expect(sessions.expired(Infinity)).toEqual([]);
  });

  test('has a unique id, also after restarts, and its own password', () => {
    const first = new Sessions(TICK, 0);
    const opened = Array.from({ length: 1000 }, () => first.open(1000, 0));
    const second = new Sessions(TICK, 0, first.save());
    opened.push(second.open(1000, 0));
    expect(new Set(opened.map(({ id }) => id)).size).toBe(1001);
    expect(opened.every(({ id }) => id > 0n)).toBe(true);
    expect(opened[0].password).not.toEqual(opened[1].password);
  });

  test('gets its full timeout again after a restart', () => {
    const before = new Sessions(TICK, 0);
    const { id, password } = before.open(1000, 0);
    const after = new Sessions(TICK, 10_000, before.save());
    expect(after.get(id)).toEqual({ id, password, timeout: 1000, expiresAt: 11_500 });
  });
});
