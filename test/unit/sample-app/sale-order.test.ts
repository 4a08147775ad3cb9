import { BadRequestException } from '@nestjs/common';
import { describe, expect, it } from 'vitest';
import { SaleOrderPipe } from '../../../sample-app/live/sale-order.js';

const order = { mode: 'lock', buyers: 10, items: 5, delay: [0, 20] };
const transform = (body: unknown) => new SaleOrderPipe().transform(body);

describe('the parameters of a sale', () => {
  it.each(['none', 'lock', 'lingering', 'strict'])('accept the mode %s', (mode) => {
    expect(transform({ ...order, mode, more: 'nothing' })).toEqual({ ...order, mode });
  });

  it.each([
    ['mode', { mode: 'toString' }],
    ['mode', { mode: undefined }],
    ['buyers', { buyers: 0 }],
    ['buyers', { buyers: 2_001 }],
    ['buyers', { buyers: '10' }],
    ['items', { items: 1.5 }],
    ['delay from', { delay: undefined }],
    ['delay to', { delay: [0, 1_001] }],
    ['delay', { delay: [20, 10] }],
  ])('reject a wrong %s: %j', (what, change) => {
    expect(() => transform({ ...order, ...change })).toThrow(BadRequestException);
    expect(() => transform({ ...order, ...change })).toThrow(what);
  });

  it.each([undefined, null, 'text'])('reject %j', (body) => {
    expect(() => transform(body)).toThrow(BadRequestException);
  });
});
