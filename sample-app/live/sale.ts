import { setMaxListeners } from 'node:events';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { PURCHASE_WAIT } from '../shop/goods-stock.controller.js';
import { abortedAfter } from './aborted-after.js';
import { buy } from './buyer.js';
import type { EventStore } from './event-store.js';
import type { SaleStatus, Tally } from './events.js';
import type { Figures, FiguresReader } from './figures-reader.js';
import type { Fleet } from './fleet.js';
import { ROUTES, type SaleOrder } from './sale-order.js';

/** Milliseconds within which an instance must have restored the stock: longer than a dead holder keeps the lock. */
const PREPARATION = 15_000;

export interface SaleContext {
  readonly fleet: Fleet;
  readonly store: EventStore;
  readonly figures: FiguresReader;
  readonly signal: AbortSignal;
}

/** One sale: restores the stock, sends the buyers, and counts the answer of each. */
export class Sale {
  state: SaleStatus['state'] = 'preparing';
  /** The latest figures of the database. */
  figures?: Figures;
  /** When the last buyer had an answer. */
  private endedAt = Infinity;
  private readonly answers = { sold: 0, soldOut: 0, refused: 0 };

  constructor(
    readonly number: number,
    readonly goods: string,
    readonly order: SaleOrder,
    private readonly context: SaleContext,
  ) {}

  get running(): boolean {
    return this.state === 'preparing' || this.state === 'selling';
  }

  get tally(): Tally {
    const { sold, soldOut, refused } = this.answers;
    return { sold, soldOut, refused, unanswered: this.order.buyers - sold - soldOut - refused };
  }

  get status(): SaleStatus {
    return { sale: this.number, state: this.state, tally: this.tally, ...this.figures };
  }

  /** Whether the database may still have other figures, or has not answered since the end. */
  get needsFigures(): boolean {
    if (this.state === 'selling') return true;
    return this.state === 'over' && !this.hasFinalFigures;
  }

  /** Orders in the database after the sale. Undefined if a buyer has no answer, or the database gave none. */
  get finalOrders(): number | undefined {
    const isAnswered = this.state === 'over' && this.tally.unanswered === 0;
    return isAnswered && this.hasFinalFigures ? this.figures!.orders : undefined;
  }

  private get hasFinalFigures(): boolean {
    return this.figures !== undefined && this.figures.confirmedAt >= this.endedAt;
  }

  /** Restores the stock through an instance, which needs the lock. */
  async prepare(): Promise<void> {
    const [slot] = this.context.fleet.healthy;
    if (!slot) throw new Error('no instance is free of faults');
    await this.reset(slot.instance!.url).catch((cause: Error) => {
      const reason = cause.name === 'TimeoutError' ? 'it did not answer in time' : cause.message;
      throw new Error(
        `instance ${slot.number} did not restore the stock of ${this.goods}: ${reason}`,
        { cause },
      );
    });
  }

  /**
   * Sends the buyers to all instances that are alive. Resolves when each buyer has an answer, lost its connection, or
   * timed out.
   */
  async sell(): Promise<void> {
    const { fleet, signal } = this.context;
    const { alive } = fleet;
    if (alive.length === 0) throw new Error('no instance is alive');
    const { mode, buyers } = this.order;
    const shares = fleet.slots.map((slot) => {
      const index = alive.indexOf(slot);
      return index < 0 ? 0 : Math.max(0, Math.ceil((buyers - index) / alive.length));
    });
    this.begin(shares);
    const patience = abortedAfter(PURCHASE_WAIT + 10_000, signal);
    setMaxListeners(0, patience);
    const urls = alive.map(
      ({ instance }) => `${instance!.url}/goods-stock/${this.goods}/${ROUTES[mode]}`,
    );
    const answers: Promise<void>[] = [];
    for (let i = 0; i < buyers; i++) {
      // Two sales take turns, and the server can send statuses between them.
      if (i % 10 === 0) await nextTurn();
      answers.push(
        buy(urls[i % urls.length]!, patience).then((answer) => {
          if (answer !== 'unanswered') this.answers[answer] += 1;
        }),
      );
    }
    await Promise.all(answers);
    this.endedAt = this.context.store.now();
    this.end('over', await this.readFigures());
  }

  fail(error: unknown): void {
    // No buyers were sent.
    if (this.state === 'preparing') this.begin(this.context.fleet.slots.map(() => 0));
    this.end('failed', { failure: error instanceof Error ? error.message : String(error) });
  }

  /** When the database does not answer, the earlier figures stay, with their time. */
  async readFigures(): Promise<Figures | undefined> {
    const figures = await this.context.figures.read(this.goods).catch(() => undefined);
    if (figures && figures.confirmedAt > (this.figures?.confirmedAt ?? 0)) this.figures = figures;
    return figures;
  }

  private async reset(url: string): Promise<void> {
    const answer = await fetch(`${url}/goods-stock/${this.goods}/reset`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ stock: this.order.items }),
      signal: abortedAfter(PREPARATION, this.context.signal),
    });
    if (answer.ok) return;
    const { message } = (await answer.json()) as { message: string };
    throw new Error(message);
  }

  private begin(shares: number[]): void {
    const { number: sale, goods, order } = this;
    this.state = 'selling';
    this.context.store.add({ type: 'sale-started', sale, goods, ...order, shares });
  }

  private end(
    state: 'over' | 'failed',
    { stock, orders, failure }: { stock?: number; orders?: number; failure?: string } = {},
  ): void {
    this.state = state;
    const { tally, number: sale } = this;
    this.context.store.add({ type: 'sale-ended', sale, tally, stock, orders, failure });
  }
}
