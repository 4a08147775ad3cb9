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
import { type Lease, LeaseLostError } from 'nestjs-zookeeper';
import { fence, StaleLeaseError } from 'nestjs-zookeeper/fence';
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
    const { stock, isActive } = await existing(this.goods.manager, goodsNo);
    const orders = await this.orders.countBy({ goodsNo, state: Not('closed') });
    return { goodsNo, stock, isActive, orders };
  }

  /**
   * Sells one piece: reads the stock, waits, and writes the stock minus one. Two concurrent calls without
   * a lock write the same number and sell the same piece twice.
   */
  async purchase(goodsNo: string, lease?: Lease) {
    const publish = purchaseSteps(goodsNo, lease?.fencingToken);
    try {
      const { stock, isActive } = await this.fenced(lease, (manager) => existing(manager, goodsNo));
      if (!isActive) throw new GoneException(`${goodsNo} is not on sale`);
      publish({ type: 'stock-read', stock });
      if (stock === 0) throw new ConflictException(`${goodsNo} is sold out`);

      const [from, to] = this.settings.delay;
      await wait(randomInt(from, to + 1));

      const order = await this.fenced(lease, async (manager) => {
        await manager.update(GoodsStock, { goodsNo }, { stock: stock - 1 });
        return manager.save(Order, { goodsNo, placedAt: Date.now() });
      });
      publish({ type: 'stock-written', stock: stock - 1 });
      return { orderId: order.id, goodsNo, stock: stock - 1 };
    } catch (error) {
      if (!(error instanceof StaleLeaseError || error instanceof LeaseLostError)) throw error;
      publish({ type: 'write-refused' });
      throw new PreconditionFailedException(`the write to ${goodsNo} was refused`, {
        cause: error,
      });
    }
  }

  /** Restores the stock and deletes the orders. */
  async reset(goodsNo: string, stock: number, lease: Lease) {
    await this.fenced(lease, async (manager) => {
      await existing(manager, goodsNo);
      await manager.update(GoodsStock, { goodsNo }, { stock });
      await manager.delete(Order, { goodsNo });
    });
    return this.find(goodsNo);
  }

  /** Cancels unpaid orders that were placed before the given time, and returns their pieces to the stock. */
  async closeUnpaid(goodsNo: string, placedBefore: number, lease: Lease) {
    await this.fenced(lease, async (manager) => {
      const overdue = { goodsNo, state: 'unpaid' as const, placedAt: LessThan(placedBefore) };
      const { affected } = await manager.update(Order, overdue, { state: 'closed' });
      await manager.increment(GoodsStock, { goodsNo }, 'stock', affected!);
    });
  }

  /** Runs a transaction, with a lease behind its fence. From then on the database refuses earlier lock holders. */
  private fenced<T>(
    lease: Lease | undefined,
    work: (manager: EntityManager) => Promise<T>,
  ): Promise<T> {
    return this.transactions.run(async (manager) => {
      if (lease) await fence(manager, lease);
      return work(manager);
    });
  }
}

async function existing(manager: EntityManager, goodsNo: string): Promise<GoodsStock> {
  const goods = await manager.findOneBy(GoodsStock, { goodsNo });
  if (!goods) throw new NotFoundException(`there are no goods ${goodsNo}`);
  return goods;
}
