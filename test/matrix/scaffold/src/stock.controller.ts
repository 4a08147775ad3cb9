import { Controller, Param, Post } from '@nestjs/common';
import { currentLease, DistributedLock } from 'nestjs-zookeeper';
import { TillService } from './till.service';
import { StockService } from './stock.service';

@Controller('stock')
export class StockController {
  constructor(
    private readonly stock: StockService,
    private readonly tills: TillService,
  ) {}

  /** A sale at a till. The answer is 409 while the till is closed. */
  @Post(':till/sell')
  @DistributedLock((till: string) => till, { wait: 0 })
  async sell(@Param('till') _till: string) {
    return { piece: await this.stock.take(), key: currentLease()?.key };
  }

  @Post(':till/close')
  async close(@Param('till') till: string) {
    await this.tills.close(till);
  }

  @Post(':till/open')
  async open(@Param('till') till: string) {
    await this.tills.open(till);
  }
}
