import { expect, test } from 'vitest';
import { claimsIn } from '../../../lib/kernel/deadlock/nested-wait.js';

test('a claim of another client counts only if each field has the right type', () => {
  const claim = { node: '/locks/a/_c_1-lock-0000000000', key: 'a', since: 1 };
  const claims = (...holds: unknown[]) => claimsIn(Buffer.from(JSON.stringify({ holds })));
  expect(claims(claim, { ...claim, until: 2 })).toHaveLength(2);
  // A report could not contain such a time.
  expect(claims({ ...claim, until: 1e300 }, { ...claim, key: { toString: 1 } }, null)).toEqual([]);
});
