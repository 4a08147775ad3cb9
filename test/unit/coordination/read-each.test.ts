import { expect, test } from 'vitest';
import { MAX_READS, readEach } from '../../../lib/coordination/recipes/internals/read-each.js';

test('a list of znodes is read in parts, and the results have its order', async () => {
  const items = Array.from({ length: 3 * MAX_READS }, (_, i) => i);
  let reading = 0;
  let most = 0;
  const results = await readEach(items, async (item) => {
    most = Math.max(most, ++reading);
    for (let turn = 0; turn <= item % 3; turn++) await Promise.resolve();
    reading--;
    return item;
  });
  expect(results).toEqual(items);
  expect(most).toBe(MAX_READS);
});
