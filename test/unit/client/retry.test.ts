import { getEventListeners } from 'node:events';
import { describe, expect, test, vi } from 'vitest';
import { BadOptionError } from '../../../lib/client/index.js';
import { toRetryFunction } from '../../../lib/client/options.js';
import { sleep } from '../../../lib/client/sleep.js';

const delays = (policy: unknown, random = () => 1) => {
  const retry = toRetryFunction(policy, random);
  return Array.from({ length: 12 }, (_, failed) => retry(failed + 1, 0));
};

describe('a retry policy', () => {
  test('grows exponentially up to its maximum, and gives up', () => {
    const limited = { type: 'exponential', baseDelay: 10, maxDelay: 50, maxRetries: 4 };
    expect(delays(limited).join()).toBe('10,20,40,50,,,,,,,,');
  });

  test('is exponential by default, with ten retries', () => {
    expect(delays(undefined).join()).toBe('100,200,400,800,1600,3000,3000,3000,3000,3000,,');
  });

  test('spreads its delays from 0 to the full delay', () => {
    expect(delays({ type: 'exponential' }, () => 0).slice(0, 3)).toEqual([0, 0, 0]);
    expect(delays({ type: 'exponential' }, () => 0.5).slice(0, 3)).toEqual([50, 100, 200]);
  });

  test('can be fixed, endless or none', () => {
    expect(delays({ type: 'fixed', delay: 7, maxRetries: 2 }).join()).toBe('7,7,,,,,,,,,,');
    expect(delays({ type: 'forever', delay: 7 })[11]).toBe(7);
    expect(delays({ type: 'none' })[0]).toBeUndefined();
  });

  test('may have the options of another type if they are undefined', () => {
    expect(delays({ type: 'none', delay: undefined })[0]).toBeUndefined();
    expect(delays({ type: 'forever', delay: 7, maxRetries: undefined })[11]).toBe(7);
  });

  test('can be a function, whose result is validated', () => {
    const policy = vi.fn((attempt: number) => (attempt < 3 ? attempt : undefined));
    expect(delays(policy).slice(0, 3)).toEqual([1, 2, undefined]);
    expect(policy).toHaveBeenNthCalledWith(1, 1, 0);
    expect(() => toRetryFunction(() => Number.NaN)(1, 0)).toThrow(BadOptionError);
    expect(() => toRetryFunction(() => -1)(1, 0)).toThrow(BadOptionError);
  });

  test.each([
    [{}],
    [{ type: 'toString' }],
    [{ type: 'exponential', delay: 5 }],
    [{ type: 'exponential', baseDelay: 0 }],
    [{ type: 'exponential', maxRetries: -1 }],
    [{ type: 'exponential', maxRetries: 1.5 }],
    [{ type: 'fixed' }],
    [{ type: 'forever', delay: 0 }],
    [{ type: 'forever', delay: Infinity }],
    [{ type: 'none', delay: 1 }],
    [null],
  ])('rejects %o', (policy) => {
    expect(() => toRetryFunction(policy)).toThrow(BadOptionError);
  });
});

describe('a delay before a retry', () => {
  test('ends early when it is woken, and removes its timer and listener', async () => {
    const controller = new AbortController();
    const forget = vi.fn();
    let wake!: () => void;
    const waiting = sleep(60_000, {
      signals: [controller.signal, undefined],
      until: (wakeUp) => {
        wake = wakeUp;
        return forget;
      },
    });
    wake();
    await waiting;
    expect(forget).toHaveBeenCalledOnce();
    expect(getEventListeners(controller.signal, 'abort')).toHaveLength(0);
  });

  test('rejects with the reason of its signal, before or during the delay', async () => {
    const controller = new AbortController();
    const waiting = sleep(60_000, { signals: [controller.signal] });
    controller.abort('enough');
    await expect(waiting).rejects.toBe('enough');
    await expect(sleep(1, { signals: [controller.signal] })).rejects.toBe('enough');
  });
});
