import { randomInt } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import {
  ConflictException,
  GoneException,
  Inject,
  Injectable,
  NotFoundException,
  PreconditionFailedException,
} from '@nestjs/common';
import { InjectRepository } from '@nestjs/typeorm';
import { type EntityManager, LessThan, Not, type Repository } from 'typeorm';
import { GoodsStock } from './goods-stock.entity.js';
import { Order } from './order.entity.js';
import { purchaseSteps } from './purchase-steps.js';
import { SHOP_SETTINGS, type ShopSettings } from './settings.js';
import { Transactions } from './transactions.js';

/** Returns the key of the lock that protects the stock of these goods. */
export const goodsKey = (goodsNo: string) => `goods-${goodsNo}`;

@Injectable()
export class GoodsStockService {
  constructor(
    @InjectRepository(GoodsStock) private readonly goods: Repository<GoodsStock>,
    @InjectRepository(Order) private readonly orders: Repository<Order>,
    private readonly transactions: Transactions,
    @Inject(SHOP_SETTINGS) private readonly settings: ShopSettings,
  ) {}

  async find(goodsNo: string) {
    const { stock, isActive } = await this.existing(goodsNo);
    const orders = await this.orders.countBy({ goodsNo, state: Not('closed') });
    return { goodsNo, stock, isActive, orders };
  }

  /**
   * Sells one piece: reads the stock, waits, and writes the stock minus one. Two concurrent calls without
   * a lock write the same number and sell the same piece twice.
   */
  async purchase(goodsNo: string, fencingToken?: bigint) {
    const publish = purchaseSteps(goodsNo, fencingToken);
    try {
      if (fencingToken !== undefined) await this.takeFence(goodsNo, fencingToken);
      const { stock, isActive } = await this.existing(goodsNo);
      if (!isActive) throw new GoneException(`${goodsNo} is not on sale`);
      publish({ type: 'stock-read', stock });
      if (stock === 0) throw new ConflictException(`${goodsNo} is sold out`);

      const [from, to] = this.settings.delay;
      await wait(randomInt(from, to + 1));

      const order = await this.transactions.run(async (manager) => {
        await writeStock(manager, goodsNo, stock - 1, fencingToken);
        return manager.save(Order, { goodsNo, placedAt: Date.now() });
      });
      publish({ type: 'stock-written', stock: stock - 1 });
      return { orderId: order.id, goodsNo, stock: stock - 1 };
    } catch (error) {
      if (error instanceof PreconditionFailedException) publish({ type: 'write-refused' });
      throw error;
    }
  }

  /** Restores the stock and deletes the orders. The fence stays: it must never decrease. */
  async reset(goodsNo: string, stock: number, fencingToken: bigint) {
    await this.takeFence(goodsNo, fencingToken);
    await this.transactions.run(async (manager) => {
      await writeStock(manager, goodsNo, stock, fencingToken);
      await manager.delete(Order, { goodsNo });
    });
    return this.find(goodsNo);
  }

  /** Cancels unpaid orders that were placed before the given time, and returns their pieces to the stock. */
  async closeUnpaid(goodsNo: string, placedBefore: number, fencingToken: bigint) {
    await this.takeFence(goodsNo, fencingToken);
    await this.transactions.run(async (manager) => {
      const overdue = { goodsNo, state: 'unpaid' as const, placedAt: LessThan(placedBefore) };
      const { affected } = await manager.update(Order, overdue, { state: 'closed' });
      const { stock } = await manager.findOneByOrFail(GoodsStock, { goodsNo });
      await writeStock(manager, goodsNo, stock + affected!, fencingToken);
    });
  }

  private async existing(goodsNo: string): Promise<GoodsStock> {
    const goods = await this.goods.findOneBy({ goodsNo });
    if (!goods) throw new NotFoundException(`there are no goods ${goodsNo}`);
    return goods;
  }

  /**
   * Runs before the first read: from now on the database refuses writes of earlier lock holders; their
   * earlier writes are visible to the reads that follow.
   */
  private async takeFence(goodsNo: string, fencingToken: bigint): Promise<void> {
    const { affected } = await this.transactions.run((manager) =>
      manager
        .createQueryBuilder()
        .update(GoodsStock)
        .set({ fence: fencingToken })
        .where({ goodsNo })
        .andWhere('fence < :fencingToken', { fencingToken })
        .execute(),
    );
    if (affected === 0) {
      await this.existing(goodsNo);
      throw tooLate(goodsNo);
    }
  }
}

/**
 * With a token the write is fenced: it has no effect if a later holder of the lock has written its token.
 */
async function writeStock(
  manager: EntityManager,
  goodsNo: string,
  stock: number,
  fencingToken: bigint | undefined,
): Promise<void> {
  const update = manager.createQueryBuilder().update(GoodsStock).set({ stock }).where({ goodsNo });
  if (fencingToken !== undefined) update.andWhere('fence = :fencingToken', { fencingToken });
  const { affected } = await update.execute();
  if (affected === 0) throw tooLate(goodsNo);
}

function tooLate(goodsNo: string): PreconditionFailedException {
  return new PreconditionFailedException(
    `the write to ${goodsNo} was refused: a later lock holder has stored a higher fencing token`,
  );
}
