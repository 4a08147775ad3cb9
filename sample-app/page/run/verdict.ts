import type { SaleStatus, Tally } from '../../live/events.js';
import type { SaleModel } from './run-model.js';

/** `good` only when every buyer has an answer and the stock fell by one for each order. */
export type Tone = 'neutral' | 'good' | 'warn' | 'bad';

export interface Verdict {
  readonly tone: Tone;
  readonly kind:
    | 'selling'
    | 'oversold'
    | 'lost-update'
    | 'exact'
    | 'left'
    | 'unanswered'
    | 'unchecked'
    | 'failed';
  readonly tally: Tally;
  readonly orders: number;
  /** By how much the stock fell. */
  readonly fell?: number;
  readonly items: number;
  readonly buyers: number;
  readonly reason?: string;
}

/** Judges a sale by the answers to all of its buyers and by the orders and the stock in the database. */
export function verdictOf(sale: SaleModel, status: SaleStatus | undefined): Verdict {
  const { buyers, items, end } = sale;
  const reason = end?.failure;
  const figures = end ?? status;
  const tally = figures?.tally ?? { sold: 0, soldOut: 0, refused: 0, unanswered: buyers };
  // An order of a buyer who got no answer counts, too.
  const orders = Math.max(figures?.orders ?? 0, tally.sold);
  const fell = end?.stock === undefined ? undefined : items - end.stock;
  const make = (kind: Verdict['kind'], tone: Tone): Verdict => ({
    ...{ tone, kind, tally, orders, fell, items, buyers, reason },
  });
  if (orders > items) return make('oversold', 'bad');
  if (reason !== undefined || status?.state === 'failed') return make('failed', 'warn');
  if (!end) return make('selling', 'neutral');
  if (end.orders === undefined || fell === undefined) return make('unchecked', 'warn');
  // Not `orders`: an order that was not paid in time is closed, and its piece is in stock again.
  if (fell !== end.orders) return make('lost-update', 'bad');
  if (tally.unanswered > 0) return make('unanswered', 'warn');
  return orders === Math.min(items, buyers) ? make('exact', 'good') : make('left', 'warn');
}
