import { type DynamicModule, Module } from '@nestjs/common';
import { APP_FILTER, APP_GUARD } from '@nestjs/core';
import { ScheduleModule } from '@nestjs/schedule';
import { TypeOrmModule } from '@nestjs/typeorm';
import { ZkModule } from 'nestjs-zookeeper';
import { dataSourceOptions } from './database.js';
import { DatabaseBusyFilter } from './database-busy.filter.js';
import { GoodsStockController, PURCHASE_WAIT } from './goods-stock.controller.js';
import { GoodsStock } from './goods-stock.entity.js';
import { GoodsStockService } from './goods-stock.service.js';
import { LeaderController } from './leader.controller.js';
import { LocalOnlyGuard } from './local-only.guard.js';
import { MetricsController } from './metrics.controller.js';
import { Order } from './order.entity.js';
import { OrdersController } from './orders.controller.js';
import { NAMESPACE, SHOP_SETTINGS, type ShopSettings } from './settings.js';
import { Transactions } from './transactions.js';
import { UnpaidOrdersService } from './unpaid-orders.service.js';

@Module({
  controllers: [GoodsStockController, OrdersController, LeaderController, MetricsController],
  providers: [
    GoodsStockService,
    Transactions,
    UnpaidOrdersService,
    // A page of another origin can send requests to the port of an instance, too.
    { provide: APP_GUARD, useClass: LocalOnlyGuard },
    { provide: APP_FILTER, useClass: DatabaseBusyFilter },
  ],
})
export class ShopModule {
  static forRoot(settings: ShopSettings): DynamicModule {
    const { zookeeper, sessionTimeout } = settings;
    const server = zookeeper ? { connectString: zookeeper } : { embedded: true as const };
    return {
      module: ShopModule,
      imports: [
        ZkModule.forRoot({
          ...server,
          sessionTimeout,
          namespace: NAMESPACE,
          // Long waits are normal in a flash sale.
          warnAfter: { wait: PURCHASE_WAIT },
        }),
        ScheduleModule.forRoot(),
        TypeOrmModule.forRoot(dataSourceOptions(settings)),
        TypeOrmModule.forFeature([GoodsStock, Order]),
      ],
      providers: [{ provide: SHOP_SETTINGS, useValue: settings }],
    };
  }
}
