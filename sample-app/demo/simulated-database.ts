import { setTimeout as delay } from 'node:timers/promises';
import type { Random } from 'nestjs-zookeeper/testing';

/** The row of one product. */
interface Goods {
  stock: number;
  orders: number;
  /** The token of the last holder of the lock that has read the stock. */
  fence: bigint;
}

/** The greatest number of milliseconds that a query or its answer takes. */
const MAX_LATENCY = 2;

/** A database in memory, with the statements of `GoodsStockService`. */
export class SimulatedDatabase {
  readonly #goods = new Map<string, Goods>();

  constructor(private readonly random: Random) {}

  /** Adds a product. */
  add(goods: string, stock: number): void {
    this.#goods.set(goods, { stock, orders: 0, fence: 0n });
  }

  /** Returns the present row, without a query. */
  row(goods: string): Readonly<Goods> {
    return this.#goods.get(goods)!;
  }

  /** Returns the stock, or undefined if a later holder of the lock has written its token. */
  read(goods: string, token?: bigint): Promise<number | undefined> {
    return this.#query(goods, (row) => {
      if (token !== undefined) {
        if (token <= row.fence) return undefined;
        row.fence = token;
      }
      return row.stock;
    });
  }

  /** Writes the stock and an order. Returns false if a later holder of the lock has written its token. */
  sell(goods: string, stock: number, token?: bigint): Promise<boolean> {
    return this.#query(goods, (row) => {
      if (token !== undefined && token !== row.fence) return false;
      row.stock = stock;
      row.orders++;
      return true;
    });
  }

  async #query<T>(goods: string, statement: (row: Goods) => T): Promise<T> {
    await delay(this.random.whole(1, MAX_LATENCY));
    const result = statement(this.#goods.get(goods)!);
    await delay(this.random.whole(1, MAX_LATENCY));
    return result;
  }
}
