import {
  ConflictException,
  Injectable,
  Logger,
  type OnApplicationShutdown,
  ServiceUnavailableException,
} from '@nestjs/common';
import { sendBuyers, type Tally } from '../seckill/load.js';
import { PATIENCE } from '../shop/goods-stock.controller.js';
import { Fleet } from './fleet.js';
import { ROUTES, type SaleOrder } from './sale-order.js';

/** The goods of the page. */
export const GOODS = 'phone';

/** The buyers of one instance. */
interface Share extends Tally {
  readonly buyers: number;
  /** All their requests have ended. */
  over: boolean;
}

export interface Run {
  readonly number: number;
  readonly order: SaleOrder;
  state: 'preparing' | 'selling' | 'over' | 'failed';
  /** Start time of the first buyer, by `performance.now()`. */
  startedAt?: number;
  endedAt?: number;
  /** Buyers by the number of the instance. */
  readonly shares: Map<number, Share>;
}

/** Sends the buyers to all instances; one sale at a time. */
@Injectable()
export class Sale implements OnApplicationShutdown {
  run?: Run;
  private readonly logger = new Logger(Sale.name);
  private readonly closing = new AbortController();

  constructor(private readonly fleet: Fleet) {}

  get running(): boolean {
    return this.run?.state === 'preparing' || this.run?.state === 'selling';
  }

  start(order: SaleOrder): void {
    if (this.running) throw new ConflictException('a sale is already running');
    if (this.fleet.alive.length === 0) {
      throw new ServiceUnavailableException('no instance is alive');
    }
    const run: Run = {
      number: (this.run?.number ?? 0) + 1,
      order,
      state: 'preparing',
      shares: new Map(),
    };
    this.run = run;
    this.sell(run).catch((error: unknown) => {
      run.state = 'failed';
      if (!this.closing.signal.aborted) this.logger.error(error);
    });
  }

  onApplicationShutdown(): void {
    this.closing.abort();
  }

  private async sell(run: Run): Promise<void> {
    const { delay, items } = run.order;
    this.fleet.setDelay(delay);
    await this.stockUp(items);
    run.state = 'selling';
    run.startedAt = performance.now();
    const { alive } = this.fleet;
    const { buyers } = run.order;
    await Promise.all(
      alive.map(({ number, instance }, i) => {
        const share = Math.floor((buyers + i) / alive.length);
        return share > 0 ? this.serve(run, number, instance.url, share) : undefined;
      }),
    );
    run.endedAt = performance.now();
    run.state = 'over';
  }

  private async serve(run: Run, number: number, url: string, buyers: number): Promise<void> {
    const share: Share = { buyers, sold: 0, soldOut: 0, refused: 0, over: false };
    run.shares.set(number, share);
    await sendBuyers({
      urls: [`${url}/goods-stock/${GOODS}/${ROUTES[run.order.mode]}`],
      buyers,
      patience: PATIENCE + 10_000,
      signal: this.closing.signal,
      onProgress: (tally) => Object.assign(share, tally),
    });
    share.over = true;
  }

  private async stockUp(stock: number): Promise<void> {
    const [shop] = this.fleet.alive;
    const answer = await fetch(`${shop!.instance.url}/goods-stock/${GOODS}/reset`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ stock }),
      signal: this.closing.signal,
    });
    if (!answer.ok) throw new Error(`the reset: ${answer.status} ${await answer.text()}`);
  }
}
