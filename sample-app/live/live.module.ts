import { type DynamicModule, Module } from '@nestjs/common';
import { APP_GUARD } from '@nestjs/core';
import { TypeOrmModule } from '@nestjs/typeorm';
import { ZkModule } from 'nestjs-zookeeper';
import { dataSourceOptions } from '../shop/database.js';
import { GoodsStock } from '../shop/goods-stock.entity.js';
import { Order } from '../shop/order.entity.js';
import { NAMESPACE, type ShopSettings } from '../shop/settings.js';
import { ProxyController } from './proxy.controller.js';
import { Fleet } from './fleet.js';
import { LiveController } from './live.controller.js';
import { LocalOnlyGuard } from './local-only.guard.js';
import { Sale } from './sale.js';
import { Watch } from './watch.js';

/** The process of the page. It sells nothing, acquires no lock and does not lead. */
@Module({
  // Last: its route matches all other paths.
  controllers: [LiveController, ProxyController],
  providers: [Sale, Watch, { provide: APP_GUARD, useClass: LocalOnlyGuard }],
})
export class LiveModule {
  static forRoot(
    settings: ShopSettings & { zookeeper: string },
    startFleet: () => Promise<Fleet>,
  ): DynamicModule {
    return {
      module: LiveModule,
      imports: [
        ZkModule.forRoot({ connectString: settings.zookeeper, namespace: NAMESPACE }),
        TypeOrmModule.forRoot(dataSourceOptions(settings)),
        TypeOrmModule.forFeature([GoodsStock, Order]),
      ],
      providers: [{ provide: Fleet, useFactory: startFleet }],
    };
  }
}
