import { BadRequestException } from '@nestjs/common';
import { describe, expect, it } from 'vitest';
import { bothSales, oneSale, SecondsPipe } from '../../../sample-app/live/sale-order.js';

const order = { mode: 'lock', buyers: 10, items: 5, delay: [0, 20] };
const transform = (body: unknown) => oneSale.transform(body);

describe('the parameters of a sale', () => {
  it.each(['none', 'lock', 'lingering', 'strict'])('accept the mode %s', (mode) => {
    expect(transform({ ...order, mode, more: 'nothing' })).toEqual({ ...order, mode });
  });

  it.each([
    ['mode', { mode: 'toString' }],
    ['mode', { mode: undefined }],
    ['buyers', { buyers: 0 }],
    ['buyers', { buyers: '10' }],
    ['items', { items: 1.5 }],
    ['delay[1]', { delay: [0, 3_001] }],
    ['delay', { delay: [20, 10] }],
  ])('reject a wrong %s: %j', (what, change) => {
    expect(() => transform({ ...order, ...change })).toThrow(BadRequestException);
    expect(() => transform({ ...order, ...change })).toThrow(what);
  });

  it('name the field and the value', () => {
    expect(() => transform(undefined)).toThrow(BadRequestException);
    expect(() => transform({ ...order, buyers: 1e9 })).toThrow(
      'buyers must be a whole number from 1 to 2000, but is 1000000000',
    );
    expect(() => transform({ ...order, mode: 'strict', buyers: 501 })).toThrow(
      'buyers with the mode strict must be a whole number from 1 to 500, but is 501',
    );
    expect(() => transform({ ...order, mode: 'both' })).toThrow(
      'mode must be one of none, lock, lingering, strict, but is "both"',
    );
  });

  it('of two sales have a lock', () => {
    expect(bothSales.transform({ ...order, mode: undefined })).toEqual(order);
    expect(() => bothSales.transform({ ...order, mode: 'none' })).toThrow(
      'mode must be one of lock, lingering, strict, but is "none"',
    );
  });
});

describe('the seconds of a fault', () => {
  const seconds = (body: unknown) => new SecondsPipe().transform(body);

  it.each([0, 61, '9', null])('are 9 by default, and must not be %j', (value) => {
    expect(() => seconds({ seconds: value })).toThrow(
      `seconds must be a whole number from 1 to 60, but is ${JSON.stringify(value)}`,
    );
    expect(seconds(undefined)).toBe(9);
  });
});
