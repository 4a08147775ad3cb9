import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { RestartPause } from '../../../lib/cli/elect.js';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

describe('the pause before a restart', () => {
  it('doubles from 1 s to 30 s, and is 1 s again after a run of more than 30 s', async () => {
    const restartPause = new RestartPause();
    const pauses: number[] = [];
    for (const milliseconds of [5, 5, 5, 5, 5, 5, 30_000, 30_001, 5]) {
      await restartPause.measure(async () => vi.advanceTimersByTime(milliseconds));
      pauses.push(restartPause.next());
    }
    expect(pauses).toEqual([1000, 2000, 4000, 8000, 16_000, 30_000, 30_000, 1000, 2000]);
  });
});
