import assert from 'node:assert/strict';
import { Inject, Injectable } from '@nestjs/common';
import {
  CommandBus,
  CommandHandler,
  CqrsModule,
  EventBus,
  EventsHandler,
  type ICommandHandler,
  type IEventHandler,
  type IQueryHandler,
  QueryBus,
  QueryHandler,
} from '@nestjs/cqrs';
import { DistributedLock, LeaderOnly, LockBusyError, LockService } from 'nestjs-zookeeper';
import {
  type Check,
  ELECTION,
  INSTANCE,
  listenOnAnyPort,
  until,
  withInstances,
} from '../support/instances.js';
import { Shop } from '../support/shop.js';

const shop = new Shop();
const ranBy: string[] = [];

class Sell {
  constructor(readonly id: number) {}
}
class Count {}
class Sold {}

@CommandHandler(Sell)
class SellHandler implements ICommandHandler<Sell> {
  @DistributedLock(({ id }: Sell) => `goods-${id}`)
  async execute(_command: Sell) {
    return shop.sell();
  }
}

@QueryHandler(Count)
class CountHandler implements IQueryHandler<Count> {
  @DistributedLock('stock', { wait: 0 })
  async execute(_query: Count) {
    return shop.sold;
  }
}

@Injectable()
@EventsHandler(Sold)
class SoldHandler implements IEventHandler<Sold> {
  constructor(@Inject(INSTANCE) private readonly instance: string) {}

  @LeaderOnly(ELECTION)
  async handle(_event: Sold) {
    ranBy.push(this.instance);
  }
}

export const check: Check = (platform) =>
  withInstances(
    platform,
    { imports: [CqrsModule.forRoot()], providers: [SellHandler, CountHandler, SoldHandler] },
    listenOnAnyPort,
    async ({ one, other }) => {
      const sales = [one, other, one, other].map((app) =>
        app.get(CommandBus).execute<Sell, string>(new Sell(7)),
      );
      assert.deepEqual(await Promise.all(sales), Array<string>(4).fill('goods-7'));
      assert.deepEqual({ most: shop.most, sold: shop.sold }, { most: 1, sold: 4 });

      const lease = await other.get(LockService).acquire('stock');
      await assert.rejects(one.get(QueryBus).execute(new Count()), LockBusyError);
      await lease.release();
      assert.equal(await one.get(QueryBus).execute(new Count()), 4);

      other.get(EventBus).publish(new Sold());
      one.get(EventBus).publish(new Sold());
      await until(() => ranBy.length > 0);
      assert.deepEqual(ranBy, ['one']);
    },
  );
