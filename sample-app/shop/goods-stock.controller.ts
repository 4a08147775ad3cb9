import { Body, Controller, Get, HttpCode, Param, Post } from '@nestjs/common';
import { currentLease, DistributedLock } from 'nestjs-zookeeper';
import { goodsKey, GoodsStockService } from './goods-stock.service.js';
import { GoodsNoPipe, StockPipe } from './input.js';

/** Milliseconds that a buyer waits: long enough for a queue of 1,500 buyers. */
export const PURCHASE_WAIT = 120_000;

@Controller('goods-stock/:goodsNo')
export class GoodsStockController {
  constructor(private readonly goods: GoodsStockService) {}

  @Get()
  find(@Param('goodsNo', GoodsNoPipe) goodsNo: string) {
    return this.goods.find(goodsNo);
  }

  @Post('purchase-unlocked')
  purchaseUnlocked(@Param('goodsNo', GoodsNoPipe) goodsNo: string) {
    return this.goods.purchase(goodsNo);
  }

  @Post('purchase')
  @DistributedLock(goodsKey, { wait: PURCHASE_WAIT })
  purchase(@Param('goodsNo', GoodsNoPipe) goodsNo: string) {
    return this.goods.purchase(goodsNo, currentLease()!);
  }

  /** With `linger`, an idle instance keeps the lock for its next buyer until another instance needs it. */
  @Post('purchase-lingering')
  @DistributedLock(goodsKey, { wait: PURCHASE_WAIT, linger: 500 })
  purchaseLingering(@Param('goodsNo', GoodsNoPipe) goodsNo: string) {
    return this.goods.purchase(goodsNo, currentLease()!);
  }

  /** In the order of arrival across all instances: one znode for each buyer. */
  @Post('purchase-strict')
  @DistributedLock(goodsKey, { wait: PURCHASE_WAIT, fairness: 'strict' })
  purchaseStrict(@Param('goodsNo', GoodsNoPipe) goodsNo: string) {
    return this.goods.purchase(goodsNo, currentLease()!);
  }

  @Post('reset')
  @HttpCode(200)
  @DistributedLock(goodsKey, { wait: PURCHASE_WAIT })
  reset(@Param('goodsNo', GoodsNoPipe) goodsNo: string, @Body('stock', StockPipe) stock: number) {
    return this.goods.reset(goodsNo, stock, currentLease()!);
  }
}
