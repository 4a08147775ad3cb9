import { readFileSync } from 'node:fs';
import { beforeEach, describe, expect, it } from 'vitest';
import { MODEL } from '../../../scripts/model/configurations.js';
import { OBSERVED, Replay } from '../../../scripts/model/replay.js';

const LOCK = '/locks/a';
const node = (number: number) => `${LOCK}/_c_x-lock-${String(number).padStart(10, '0')}`;

describe('the replay of a trace in the model', () => {
  let replay: Replay;
  beforeEach(() => {
    replay = new Replay(true);
    replay.create(LOCK, node(1), 's1', 101, false);
    replay.create(LOCK, node(2), 's2', 102, false);
  });

  /** Grants the lock in the state after a transaction. */
  function grant(session: string, zxid: number, nth = 0, { kind = 'cold', strict = false } = {}) {
    const hold = {};
    const token = BigInt(zxid) * 1024n + BigInt(nth);
    replay.grant(hold, { lock: LOCK, session, token, kind, strict });
    return hold;
  }

  it('allows a grant, a hand-over, and the grant of the next process', () => {
    replay.release(grant('s1', 102));
    replay.release(grant('s1', 102, 1, { kind: 'handed-over' }));
    replay.delete(LOCK, node(1), 's1', 103);
    replay.release(grant('s2', 103));
    replay.delete(LOCK, node(2), 's2', 104);
    replay.finish([]);
    expect(replay.refusal).toBeUndefined();
    expect(replay.counts.get('listing arrives')).toBe(2);
    expect(replay.counts.get('hand over')).toBe(1);
  });

  it('allows a grant by an old listing', () => {
    grant('s1', 101);
    expect(replay.refusal).toBeUndefined();
  });

  it('allows a strict caller to continue the hold just ahead', () => {
    replay.create(LOCK, node(3), 's2', 103, true);
    replay.delete(LOCK, node(1), 's1', 104);
    replay.release(grant('s2', 104));
    grant('s2', 104, 1, { kind: 'handed-over', strict: true });
    expect(replay.refusal).toBeUndefined();
    expect(replay.counts.get('succeed')).toBe(1);
  });

  it('takes the token from a write where a deletion does not raise the pzxid', () => {
    replay = new Replay(false);
    replay.create(LOCK, node(1), 's1', 101, false);
    replay.write(LOCK, node(1), 102);
    grant('s1', 102);
    expect(replay.refusal).toBeUndefined();
  });

  it.each<[string, RegExp, () => void]>([
    ['a znode that is not the first', /was first in the queue/, () => grant('s2', 102)],
    ['a second znode', /of the same session/, () => replay.create(LOCK, node(3), 's1', 103, false)],
    [
      'a token that does not rise',
      /does not rise/,
      () => {
        replay.release(grant('s1', 102));
        replay.delete(LOCK, node(1), 's1', 103);
        replay.create(LOCK, node(3), 's1', 104, false);
        grant('s2', 103);
        replay.endSession('s2', 'ended by an operator', false, 105);
        replay.write(LOCK, node(3), 99);
        grant('s1', 99, 0, { kind: 'handed-over' });
      },
    ],
    [
      'a deletion while the lock is held',
      /has not released/,
      () => {
        grant('s1', 101);
        replay.delete(LOCK, node(1), 's1', 103);
      },
    ],
    [
      'a grant after the session has expired',
      /is expired/,
      () => {
        replay.endSession('s1', 'expired', false, 103);
        grant('s1', 102);
      },
    ],
    [
      'two holders that believe in their leases',
      /two holders/,
      () => {
        grant('s1', 102);
        replay.endSession('s1', 'expired', false, 103);
        grant('s2', 103);
        replay.use(LOCK, 102n * 1024n);
      },
    ],
    [
      'a hand-over after a revocation',
      /was revoked/,
      () => {
        const hold = grant('s1', 102);
        replay.revoke(LOCK, 102n * 1024n);
        replay.release(hold);
        grant('s1', 102, 1, { kind: 'handed-over' });
      },
    ],
    [
      'a hand-over after the deletion',
      /was deleted/,
      () => {
        replay.release(grant('s1', 102));
        replay.delete(LOCK, node(1), 's1', 103);
        grant('s1', 102, 1, { kind: 'handed-over' });
      },
    ],
    ['a grant without trust', /not trusted/, () => replay.distrust(LOCK, 102n * 1024n)],
    ['a re-entry without a lease', /enter again/, () => replay.reenter(LOCK, 's1')],
    ['a wait that ends with its session', /a wait ends/, () => cancel('SessionExpiredError')],
    ['a znode at the end', /is left/, () => replay.finish([])],
    ['a wait at the end', /waits for ever/, () => replay.finish([LOCK])],
  ])('refuses %s', (_, message, act) => {
    act();
    expect(replay.refusal?.message).toMatch(message);
  });

  function cancel(error: string): void {
    replay.cancel(LOCK, 's1', true, error);
  }

  it('allows the znode of a wait that ended before the reply to its create', () => {
    cancel('WaitCancelledError');
    replay.create(LOCK, node(3), 's1', 103, false);
    expect(replay.refusal).toBeUndefined();
  });

  it('names the steps as the model does', () => {
    const model = readFileSync(MODEL, 'utf8');
    // A hand-over is a part of the step in which the lock is released.
    const others = OBSERVED.filter((step) => !model.includes(`: ${step}\\n`));
    expect(others).toEqual(['hand over']);
  });
});
