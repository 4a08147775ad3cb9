import { type DynamicModule, Module } from '@nestjs/common';
import { APP_GUARD } from '@nestjs/core';
import { TypeOrmModule } from '@nestjs/typeorm';
import { ZkModule } from 'nestjs-zookeeper';
import { dataSourceOptions } from '../shop/database.js';
import { GoodsStock } from '../shop/goods-stock.entity.js';
import { Order } from '../shop/order.entity.js';
import { NAMESPACE } from '../shop/settings.js';
import { Ensemble } from './ensemble.js';
import { EventStore } from './event-store.js';
import { FaultsController, ZookeeperFaultsController } from './faults.controller.js';
import { FiguresReader } from './figures-reader.js';
import { Fleet, type FleetOptions } from './fleet.js';
import { LiveController } from './live.controller.js';
import { LocalOnlyGuard } from '../shop/local-only.guard.js';
import { ProxyController } from './proxy.controller.js';
import { ReportReader } from './report-reader.js';
import { Sales } from './sales.js';
import { Scenarios } from './scenarios/scenarios.js';
import { StatusSource } from './status-source.js';

/** The process of the page. It sells nothing, acquires no lock and does not lead. */
@Module({
  // The proxy is last: its route matches all other paths.
  controllers: [LiveController, FaultsController, ZookeeperFaultsController, ProxyController],
  providers: [
    EventStore,
    ReportReader,
    Ensemble,
    FiguresReader,
    Sales,
    Scenarios,
    StatusSource,
    { provide: APP_GUARD, useClass: LocalOnlyGuard },
  ],
})
export class LiveModule {
  static forRoot(options: FleetOptions): DynamicModule {
    const { settings, link } = options;
    return {
      module: LiveModule,
      imports: [
        ZkModule.forRoot({
          connectString: link.connectString,
          namespace: NAMESPACE,
        }),
        TypeOrmModule.forRoot(dataSourceOptions(settings)),
        TypeOrmModule.forFeature([GoodsStock, Order]),
      ],
      providers: [
        {
          provide: Fleet,
          inject: [EventStore, ReportReader],
          useFactory: (store: EventStore, reports: ReportReader) =>
            Fleet.start(options, store, reports),
        },
      ],
    };
  }
}
