import { Injectable } from '@nestjs/common';
import { DistributedLock } from 'nestjs-zookeeper';
import { pieces } from './pieces';

@Injectable()
export class StockService {
  private left = pieces();

  /** Resolves to the number of the piece, or 0 if none is left. */
  @DistributedLock('stock', { wait: 10_000 })
  async take(): Promise<number> {
    const left = this.left;
    await Promise.resolve();
    if (left === 0) return 0;
    this.left = left - 1;
    return left;
  }
}
