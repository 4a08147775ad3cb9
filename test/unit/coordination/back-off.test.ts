import { expect, it } from 'vitest';
import { backOff } from '../../../lib/coordination/recipes/internals/refused-requests.js';

it('the delay of a consumer doubles up to a minute, or up to a longer retryDelay', () => {
  const delays = (retryDelay: number) => [1, 2, 7, 50].map((failed) => backOff(retryDelay, failed));
  expect(delays(1_000)).toEqual([1_000, 2_000, 60_000, 60_000]);
  expect(delays(300_000)).toEqual([300_000, 300_000, 300_000, 300_000]);
});
