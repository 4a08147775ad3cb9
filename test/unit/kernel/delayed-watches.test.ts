import { expect, test, vi } from 'vitest';
import { DelayedWatches } from '../../../lib/kernel/delayed-watches.js';

const setTimer = vi.hoisted(() => vi.fn(() => ({ unref: () => {} })));
vi.mock(import('node:timers'), async (importOriginal) => ({
  ...(await importOriginal()),
  setTimeout: setTimer as never,
}));

test('the timer of an overdue watch has no negative delay', () => {
  new DelayedWatches().add({ watchAt: performance.now() - 5, watchNodes: () => {} });
  expect(setTimer).toHaveBeenCalledExactlyOnceWith(expect.any(Function), 0);
});
