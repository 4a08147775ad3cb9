import assert from 'node:assert/strict';
import { Injectable } from '@nestjs/common';
import { InjectRepository, TypeOrmModule } from '@nestjs/typeorm';
import { DistributedLock } from 'nestjs-zookeeper';
import { Column, Entity, PrimaryColumn, type Repository } from 'typeorm';
import { type Check, listenOnAnyPort, withInstances } from '../support/instances.js';

@Entity()
class Goods {
  @PrimaryColumn('int')
  id!: number;

  @Column('int')
  left!: number;
}

@Injectable()
class Stock {
  constructor(@InjectRepository(Goods) readonly goods: Repository<Goods>) {}

  /** The lock is outside of the transaction: it is released after the commit. */
  @DistributedLock((id: number) => `goods-${id}`, { wait: 10_000 })
  async take(id: number): Promise<boolean> {
    return this.goods.manager.transaction(async (manager) => {
      const goods = await manager.findOneByOrFail(Goods, { id });
      if (goods.left === 0) return false;
      await manager.update(Goods, { id }, { left: goods.left - 1 });
      return true;
    });
  }
}

export const check: Check = (platform) => {
  const database = TypeOrmModule.forRoot({ type: 'sqljs', entities: [Goods], synchronize: true });
  const metadata = {
    imports: [database, TypeOrmModule.forFeature([Goods])],
    providers: [Stock],
  };
  return withInstances(platform, metadata, listenOnAnyPort, async ({ one }) => {
    const stock = one.get(Stock);
    await stock.goods.insert({ id: 7, left: 5 });
    const taken = await Promise.all(Array.from({ length: 20 }, () => stock.take(7)));
    assert.equal(taken.filter(Boolean).length, 5);
    assert.equal((await stock.goods.findOneByOrFail({ id: 7 })).left, 0);
  });
};
