import { Injectable } from '@nestjs/common';
import { InjectRepository } from '@nestjs/typeorm';
import { Not, type Repository } from 'typeorm';
import { GoodsStock } from '../shop/goods-stock.entity.js';
import { Order } from '../shop/order.entity.js';
import { EventStore } from './event-store.js';

/** Milliseconds until a database that does not answer is asked again. */
const DEADLINE = 2_000;

export interface Figures {
  readonly stock: number;
  readonly orders: number;
  readonly fence: string;
  /** When they were read, by the clock of the event store. */
  readonly confirmedAt: number;
}

/** Reads the stock and the orders of some goods from the database. */
@Injectable()
export class FiguresReader {
  constructor(
    @InjectRepository(GoodsStock) private readonly goods: Repository<GoodsStock>,
    @InjectRepository(Order) private readonly orders: Repository<Order>,
    private readonly store: EventStore,
  ) {}

  /** Rejects when the database does not answer in time. */
  async read(goodsNo: string): Promise<Figures> {
    const confirmedAt = this.store.now();
    const [row, orders] = await inTime(
      Promise.all([
        // As text: SQLite's driver would read the fence as a double.
        this.goods
          .createQueryBuilder('goods')
          .select('goods.stock', 'stock')
          .addSelect("CONCAT('', goods.fence)", 'fence')
          .where({ goodsNo })
          .getRawOne<{ stock: number; fence: string }>(),
        this.orders.countBy({ goodsNo, state: Not('closed') }),
      ]),
    );
    return { ...row!, orders, confirmedAt };
  }
}

async function inTime<T>(answer: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(
      () => reject(new Error(`the database did not answer within ${DEADLINE} ms`)),
      DEADLINE,
    );
  });
  return Promise.race([answer, late]).finally(() => clearTimeout(timer));
}
