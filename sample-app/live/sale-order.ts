import { BadRequestException, type PipeTransform } from '@nestjs/common';
import {
  type LockMode,
  MAX_COUNT,
  MAX_DELAY,
  MAX_STRICT_BUYERS,
  type SaleSettings,
} from './events.js';

/** The shop's endpoint for each lock mode. */
export const ROUTES: Readonly<Record<LockMode, string>> = {
  none: 'purchase-unlocked',
  lock: 'purchase',
  lingering: 'purchase-lingering',
  strict: 'purchase-strict',
};

export interface SaleOrder extends SaleSettings {
  readonly mode: LockMode;
}

/** Checks the order of a sale. */
export class SaleOrderPipe implements PipeTransform<unknown, SaleOrder> {
  /** @param defaultMode without it the mode is required */
  constructor(
    private readonly modes: readonly LockMode[],
    private readonly defaultMode?: LockMode,
  ) {}

  transform(body: unknown): SaleOrder {
    const { mode, buyers, items, delay } = (body ?? {}) as Record<keyof SaleOrder, unknown>;
    const checkedMode = this.mode(mode ?? this.defaultMode);
    return {
      mode: checkedMode,
      buyers:
        checkedMode === 'strict'
          ? wholeNumber('buyers with the mode strict', buyers, 1, MAX_STRICT_BUYERS)
          : wholeNumber('buyers', buyers, 1, MAX_COUNT),
      items: wholeNumber('items', items, 1, MAX_COUNT),
      delay: range(delay),
    };
  }

  private mode(mode: unknown): LockMode {
    const known = this.modes.find((name) => name === mode);
    if (known) return known;
    throw new BadRequestException(
      `mode must be one of ${this.modes.join(', ')}, but is ${JSON.stringify(mode)}`,
    );
  }
}

/** For `POST live/sale`. */
export const oneSale = new SaleOrderPipe(['none', 'lock', 'lingering', 'strict']);
/** For `POST live/both`: the mode of the sale with a lock. */
export const bothSales = new SaleOrderPipe(['lock', 'lingering', 'strict'], 'lock');

/** Checks the body `{ "seconds": n }` of a fault, and returns the seconds. */
export class SecondsPipe implements PipeTransform<unknown, number> {
  /** Longer than the session timeout of the page's instances. */
  private static readonly DEFAULT = 9;

  transform(body: unknown): number {
    const { seconds = SecondsPipe.DEFAULT } = (body ?? {}) as { seconds?: unknown };
    return wholeNumber('seconds', seconds, 1, 60);
  }
}

function range(delay: unknown): readonly [from: number, to: number] {
  const bounds: unknown[] = Array.isArray(delay) ? delay : [];
  const from = wholeNumber('delay[0]', bounds[0], 0, MAX_DELAY);
  const to = wholeNumber('delay[1]', bounds[1], 0, MAX_DELAY);
  if (bounds.length === 2 && from <= to) return [from, to];
  throw new BadRequestException(
    `delay must be [from, to] with from <= to, but is ${JSON.stringify(delay)}`,
  );
}

function wholeNumber(field: string, value: unknown, from: number, to: number): number {
  if (Number.isInteger(value) && Number(value) >= from && Number(value) <= to) {
    return value as number;
  }
  throw new BadRequestException(
    `${field} must be a whole number from ${from} to ${to}, but is ${JSON.stringify(value)}`,
  );
}
