import { describe, expect, it } from 'vitest';
import { Ledger } from '../../../sample-app/partitions/ledger.js';

/** A ledger in which process a worked on partition 3 from 10 with token 5. */
function ledgerOfA(until?: number): Ledger {
  const ledger = new Ledger();
  const work = { work: 'a1', partition: 3, token: '5' };
  ledger.add('a', { kind: 'begin', ...work, at: 10 });
  if (until !== undefined) ledger.add('a', { kind: 'end', ...work, at: until });
  return ledger;
}

const begin = (token: string, at: number) =>
  ({ kind: 'begin', work: 'b1', partition: 3, token, at }) as const;

describe('the ledger of npm run partitions', () => {
  it('accepts an owner with a higher token after the last one has ended or was killed', () => {
    const ledger = ledgerOfA(20);
    ledger.add('b', begin('6', 21));
    expect(ledger.violations()).toEqual([]);
    const killed = ledgerOfA();
    killed.ended('a', 18);
    killed.add('b', begin('6', 19));
    expect(killed.violations()).toEqual([]);
    expect([ledger.ownedBy('a'), ledger.ownedBy('b'), ledger.assignments]).toEqual([0, 1, 2]);
  });

  it('finds two owners at a time, also if the first one has not ended yet', () => {
    for (const ledger of [ledgerOfA(20), ledgerOfA()]) {
      ledger.add('b', begin('6', 19));
      expect(ledger.violations()).toEqual(['partition 3: a, then b: two owners at a time']);
    }
  });

  it('finds a token that does not rise', () => {
    const ledger = ledgerOfA(20);
    ledger.add('b', begin('5', 21));
    expect(ledger.violations()).toEqual(['partition 3: a, then b: the token did not rise']);
  });
});
