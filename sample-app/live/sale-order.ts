import { BadRequestException, Injectable, type PipeTransform } from '@nestjs/common';

/** Ways to lock the stock, and the shop's endpoint for each. */
export const ROUTES = {
  none: 'purchase-unlocked',
  lock: 'purchase',
  lingering: 'purchase-lingering',
  strict: 'purchase-strict',
} as const;

export interface SaleOrder {
  readonly mode: keyof typeof ROUTES;
  readonly buyers: number;
  readonly items: number;
  /** Random milliseconds between reading the stock and writing it. */
  readonly delay: readonly [from: number, to: number];
}

@Injectable()
export class SaleOrderPipe implements PipeTransform<unknown, SaleOrder> {
  transform(body: unknown): SaleOrder {
    const { mode, buyers, items, delay } = (body ?? {}) as Record<keyof SaleOrder, unknown>;
    if (typeof mode !== 'string' || !Object.hasOwn(ROUTES, mode)) {
      throw new BadRequestException(`mode must be one of ${Object.keys(ROUTES).join(', ')}`);
    }
    const [from, to] = Array.isArray(delay) ? (delay as unknown[]) : [];
    const order = {
      mode: mode as SaleOrder['mode'],
      buyers: whole('buyers', buyers, 1, 2_000),
      items: whole('items', items, 1, 2_000),
      delay: [whole('delay from', from, 0, 1_000), whole('delay to', to, 0, 1_000)] as const,
    };
    if (order.delay[0] > order.delay[1]) {
      throw new BadRequestException('delay to must not be below delay from');
    }
    return order;
  }
}

function whole(what: string, value: unknown, from: number, to: number): number {
  if (Number.isInteger(value) && Number(value) >= from && Number(value) <= to) {
    return value as number;
  }
  throw new BadRequestException(`${what} must be a whole number from ${from} to ${to}`);
}
