import { describe, expect, it } from 'vitest';
import { number, wholeNumber } from '../../../scripts/options.js';
import { percentile } from '../../../scripts/percentile.js';

describe("the scripts' options", () => {
  it('must be whole numbers within bounds', () => {
    expect(['2', '3', '16'].map((text) => wholeNumber('n', text, 2, 16))).toEqual([2, 3, 16]);
    for (const text of ['1', '17', '2.5', '', ' ', 'many', '-3', 'Infinity']) {
      expect(() => wholeNumber('n', text, 2, 16), text).toThrow(
        `--n must be a whole number from 2 to 16, but is ${text}`,
      );
    }
  });

  it('must be numbers within bounds', () => {
    expect(['0', '0.5', '1e1'].map((text) => number('n', text, 0, 10))).toEqual([0, 0.5, 10]);
    for (const text of ['', '-1', '10.1', 'NaN']) {
      expect(() => number('n', text, 0, 10), text).toThrow(
        `--n must be a number from 0 to 10, but is ${text}`,
      );
    }
  });
});

it('percentile() uses the nearest rank', () => {
  const values = [5, 1, 4, 2, 3];
  expect([0, 0.5, 0.9, 1].map((part) => percentile(values, part))).toEqual([1, 3, 5, 5]);
  expect(percentile([], 0.5)).toBeUndefined();
});
