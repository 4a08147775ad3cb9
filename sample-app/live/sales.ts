import {
  ConflictException,
  Injectable,
  Logger,
  type OnApplicationBootstrap,
  type OnApplicationShutdown,
  ServiceUnavailableException,
} from '@nestjs/common';
import { EventStore } from './event-store.js';
import { FiguresReader } from './figures-reader.js';
import { Fleet } from './fleet.js';
import { Sale } from './sale.js';
import type { SaleOrder } from './sale-order.js';

/** The goods of the page: one sale at a time sells the first, two sales at the same time sell both. */
export const GOODS = 'phone';
export const UNLOCKED_GOODS = 'phone-unlocked';

/** Milliseconds between two reads of the database. */
const INTERVAL = 200;

/** The sales, one or two at the same time. */
@Injectable()
export class Sales implements OnApplicationBootstrap, OnApplicationShutdown {
  /** The sales of the latest run. */
  latest: readonly Sale[] = [];
  private count = 0;
  private timer?: NodeJS.Timeout;
  private readonly logger = new Logger(Sales.name);
  private readonly closing = new AbortController();

  constructor(
    private readonly fleet: Fleet,
    private readonly store: EventStore,
    private readonly figures: FiguresReader,
  ) {}

  /** Starts a sale. */
  start(order: SaleOrder): Promise<readonly Sale[]> {
    return this.run([[GOODS, order]]);
  }

  /** Starts two sales with the same settings, one of them without a lock. */
  startBoth(order: SaleOrder): Promise<readonly Sale[]> {
    return this.run([
      [GOODS, order],
      [UNLOCKED_GOODS, { ...order, mode: 'none' }],
    ]);
  }

  get running(): boolean {
    return this.latest.some(({ running }) => running);
  }

  onApplicationBootstrap(): void {
    this.readFigures();
  }

  onApplicationShutdown(): void {
    this.closing.abort();
    clearTimeout(this.timer);
  }

  /** Throws if the sales cannot start. Resolves to them when they have ended, also when one fails. */
  private run(orders: [goods: string, order: SaleOrder][]): Promise<readonly Sale[]> {
    if (this.running) throw new ConflictException('a sale is already running');
    if (this.fleet.healthy.length === 0) {
      throw new ServiceUnavailableException('no instance is free of faults; revive or heal one');
    }
    const { fleet, store, figures } = this;
    const context = { fleet, store, figures, signal: this.closing.signal };
    const sales = orders.map(([goods, order]) => new Sale(++this.count, goods, order, context));
    this.latest = sales;
    this.fleet.setDelay(orders[0]![1].delay);
    return this.sell(sales);
  }

  private async sell(sales: Sale[]): Promise<readonly Sale[]> {
    try {
      // Both are prepared before one of them begins, so that they begin at the same time.
      const prepared = await Promise.allSettled(sales.map((sale) => sale.prepare()));
      // Not before all have an answer: a late one would restore the stock in the middle of the next sale.
      for (const result of prepared) if (result.status === 'rejected') throw result.reason;
      await Promise.all(sales.map((sale) => sale.sell()));
    } catch (error) {
      if (!this.closing.signal.aborted) this.logger.warn(`the sale failed: ${error}`);
      for (const sale of sales) if (sale.running) sale.fail(error);
    }
    return sales;
  }

  private readFigures(): void {
    const unread = this.latest.filter(({ needsFigures }) => needsFigures);
    void Promise.all(unread.map((sale) => sale.readFigures())).then(() => {
      if (!this.closing.signal.aborted) {
        this.timer = setTimeout(() => this.readFigures(), INTERVAL);
      }
    });
  }
}
