import { type DynamicModule, Module } from '@nestjs/common';
import { APP_GUARD } from '@nestjs/core';
import { TypeOrmModule } from '@nestjs/typeorm';
import { ZkModule } from 'nestjs-zookeeper';
import { dataSourceOptions } from '../shop/database.js';
import { GoodsStock } from '../shop/goods-stock.entity.js';
import { Order } from '../shop/order.entity.js';
import { NAMESPACE, type ShopSettings } from '../shop/settings.js';
import { DoorController } from './door.controller.js';
import { Fleet } from './fleet.js';
import { LiveController } from './live.controller.js';
import { LocalOnlyGuard } from './local-only.guard.js';
import { Sale } from './sale.js';
import { Watch } from './watch.js';

/** The page's process: it sells nothing itself, takes no lock and does not lead. */
@Module({
  // The door takes what nobody before it wants.
  controllers: [LiveController, DoorController],
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
