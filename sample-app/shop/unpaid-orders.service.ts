import { Inject, Injectable } from '@nestjs/common';
import { Cron, CronExpression } from '@nestjs/schedule';
import { InjectRepository } from '@nestjs/typeorm';
import { currentTerm, LeaderOnly, LockService } from 'nestjs-zookeeper';
import { LessThan, type Repository } from 'typeorm';
import { goodsKey, GoodsStockService } from './goods-stock.service.js';
import { Order } from './order.entity.js';
import { SHOP_SETTINGS, type ShopSettings } from './settings.js';

export const CLOSE_UNPAID = 'close-unpaid-orders';

/** Returns unpaid pieces to the stock. Only the leader runs this job. */
@Injectable()
export class UnpaidOrdersService {
  constructor(
    @InjectRepository(Order) private readonly orders: Repository<Order>,
    private readonly goods: GoodsStockService,
    private readonly locks: LockService,
    @Inject(SHOP_SETTINGS) private readonly settings: ShopSettings,
  ) {}

  @Cron(CronExpression.EVERY_SECOND, { waitForCompletion: true })
  @LeaderOnly(CLOSE_UNPAID)
  async closeOverdue(): Promise<void> {
    const { signal } = currentTerm()!;
    const deadline = Date.now() - this.settings.payWithin;
    const overdue = await this.orders.find({
      select: { goodsNo: true },
      where: { state: 'unpaid', placedAt: LessThan(deadline) },
    });
    for (const goodsNo of new Set(overdue.map((order) => order.goodsNo))) {
      if (signal.aborted) return;
      // Buyers write the stock too. Leadership excludes other instances from this job only, so the lock is needed.
      await this.locks.withLock(goodsKey(goodsNo), { signal }, (lease) =>
        this.goods.closeUnpaid(goodsNo, deadline, lease),
      );
    }
  }
}
