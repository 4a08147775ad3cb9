import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Progress } from '../../../sample-app/seckill/progress.js';

function output(isTTY: boolean) {
  const written: string[] = [];
  const stream = { isTTY, write: (text: string) => written.push(text) };
  return { written, progress: new Progress(stream as unknown as NodeJS.WriteStream) };
}

describe('the progress of the seckill', () => {
  beforeEach(() => vi.useFakeTimers({ toFake: ['performance'] }));
  afterEach(() => vi.useRealTimers());

  it('prints at most one line per second if the output is no terminal', () => {
    const { written, progress } = output(false);
    for (let sold = 0; sold <= 20; sold++) {
      progress.update(`${sold} sold`);
      vi.advanceTimersByTime(100);
    }
    expect(written).toEqual(['0 sold\n', '10 sold\n', '20 sold\n']);
  });

  it('updates one line on a terminal, and moves it below other messages', () => {
    const { written, progress } = output(true);
    progress.update('1 sold');
    progress.line('an instance died');
    vi.advanceTimersByTime(100);
    progress.update('2 sold');
    progress.line('over');
    expect(written.join('')).toBe(
      '\r\x1b[K1 sold\r\x1b[Kan instance died\n\r\x1b[K2 sold\r\x1b[Kover\n',
    );
  });
});
