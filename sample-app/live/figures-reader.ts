import { Injectable } from '@nestjs/common';
import { InjectRepository } from '@nestjs/typeorm';
import { Not, type Repository } from 'typeorm';
import { inTime } from '../seckill/in-time.js';
import { GoodsStock } from '../shop/goods-stock.entity.js';
import { goodsKey } from '../shop/goods-stock.service.js';
import { Order } from '../shop/order.entity.js';
import { NAMESPACE } from '../shop/settings.js';
import { EventStore } from './event-store.js';

/** Timeout of one read, in milliseconds. */
const TIMEOUT = 2_000;

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
  /** Resolves for each goods when its query has settled. */
  private readonly unanswered = new Map<string, Promise<unknown>>();

  constructor(
    @InjectRepository(GoodsStock) private readonly goods: Repository<GoodsStock>,
    @InjectRepository(Order) private readonly orders: Repository<Order>,
    private readonly store: EventStore,
  ) {}

  /**
   * Rejects when the database does not answer in time. While an earlier query for the goods is unanswered no other one
   * is sent, so that queries do not pile up.
   */
  async read(goodsNo: string): Promise<Figures> {
    for (;;) {
      const earlier = this.unanswered.get(goodsNo);
      if (!earlier) break;
      await answered(earlier);
    }
    const query = this.query(goodsNo);
    const settled = query.then(
      () => this.unanswered.delete(goodsNo),
      () => this.unanswered.delete(goodsNo),
    );
    this.unanswered.set(goodsNo, settled);
    return answered(query);
  }

  private async query(goodsNo: string): Promise<Figures> {
    const confirmedAt = this.store.now();
    const path = `/${NAMESPACE}/locks/${goodsKey(goodsNo)}`;
    const [row, orders] = await Promise.all([
      this.goods
        .createQueryBuilder('goods')
        .select('goods.stock', 'stock')
        // As text: SQLite's driver would read the token as a double.
        .addSelect("(SELECT CONCAT('', token) FROM lock_fences WHERE lock_path = :path)", 'fence')
        .where({ goodsNo })
        .setParameter('path', path)
        .getRawOne<{ stock: number; fence: string | null }>(),
      this.orders.countBy({ goodsNo, state: Not('closed') }),
    ]);
    return { stock: row!.stock, fence: row!.fence ?? '0', orders, confirmedAt };
  }
}

const answered = <T>(query: Promise<T>) =>
  inTime(query, TIMEOUT, `the database did not answer within ${TIMEOUT} ms`);
