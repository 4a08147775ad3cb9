import { Module } from '@nestjs/common';
import { ZkModule } from 'nestjs-zookeeper';
import { TillService } from './till.service';
import { StockController } from './stock.controller';
import { StockService } from './stock.service';

@Module({
  imports: [ZkModule.forRoot({ embedded: true })],
  controllers: [StockController],
  providers: [StockService, TillService],
})
export class StockModule {}
